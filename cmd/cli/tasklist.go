package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/client"
	"weir/schemas"
)

func newTaskList(env *Env) *cobra.Command {
	limit := 50
	cmd := &cobra.Command{Use: "ls", Short: "List tasks, newest first", Example: "  weir tasks ls --status Running", Args: Exactly(0, "no arguments")}
	cmd.Flags().String("status", "", "only this status: Queued, Running, Completed, Failed, Canceled or Expired")
	cmd.Flags().IntVar(&limit, "limit", 50, "the most tasks to list")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		const empty = "there are no such tasks; `weir tasks create` makes one"
		all := list[schemas.TaskView](ctx, c, schemas.RouteTasks, param(cmd, "status"), limit)
		err := printList(c, all, empty, "ID\tSTATUS\tREPO\tPUSHES\tCREATED\tDESCRIPTION", func(t schemas.TaskView) []any {
			first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
			return []any{t.ID, standingOf(t), t.Repo, t.Pushes, when(t.Created), oneLine(cut(first, 60))}
		})
		if err == nil {
			c.behindNote()
		}
		return err
	})
}

// standingOf is the status of a task, and whether it waits for an answer.
func standingOf(t schemas.TaskView) string {
	for _, q := range t.Inquiries {
		if q.Answer == nil && !t.Status.Final() {
			return string(t.Status) + ", asks"
		}
	}
	return string(t.Status)
}

func newTaskShow(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{Use: "show ID", Short: "Show one task", Example: "  weir tasks show 01890a5d-…", Args: Exactly(1, "the id of a task")},
		func(ctx context.Context, c *api, args []string) error {
			t, err := c.Task(ctx, args[0])
			if err != nil || c.asJSON {
				return c.print(t, err, "")
			}
			return printFacts(c.Out, "\n", taskFacts(t))
		})
}

func taskFacts(t schemas.TaskView) [][2]string {
	head := t.Head
	switch {
	case t.Moved:
		head = fmt.Sprintf("%s, moved from %s (pushes: %d)", t.Head, t.Base, t.Pushes)
	case head != "":
		head += ", where it began"
	}
	facts := [][2]string{
		{"task", t.ID},
		{"status", standingOf(t)},
		{"why", strings.TrimSpace(t.Reason + " " + string(t.Code) + " " + t.Message)},
		{"description", t.Description},
		{"result", t.Result},
		{"repository", t.RepoURL},
		{"branch", t.Branch},
		{"head", head},
		{"model", t.Model},
		{"pool", t.Pool},
		{"created", when(t.Created)},
		{"started", when(t.Started)},
		{"deadline", when(t.Deadline)},
		{"ended", when(t.Ended)},
	}
	for _, q := range t.Inquiries {
		answer := ""
		if q.Answer != nil {
			answer = *q.Answer
		} else if !t.Status.Final() {
			answer = fmt.Sprintf("none yet: weir tasks answer %s --inquiry %d TEXT", t.ID, q.N)
		}
		facts = append(facts, [2]string{fmt.Sprintf("question %d", q.N), q.Question}, [2]string{"answer", answer})
	}
	return facts
}

func newTaskFollow(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use: "follow ID", Short: "Follow a task until it ends", Args: Exactly(1, "the id of a task"),
		Example: `  weir tasks follow 01890a5d-…`,
		Long:    `Follow a task from its beginning until it ends. Exit 0 if it is completed, else 1.`,
	}, func(ctx context.Context, c *api, args []string) error { return c.followTask(ctx, args[0]) })
}

// updates follows a task until it ends. each gets an update, and that as it came.
func (c *api) updates(ctx context.Context, id string, each func(u schemas.TaskUpdate, raw string) error) error {
	return c.Follow(ctx, within(schemas.RouteTasks, id, "/events"), func(e sse.Event) error {
		var u schemas.TaskUpdate // a new one: an event has only the members that are about it
		if err := json.Unmarshal([]byte(e.Data), &u); err != nil {
			return fmt.Errorf("the stream holds something that is not JSON: %w", err)
		}
		return each(u, e.Data)
	})
}

// followTask prints the updates of a task until it ends.
func (c *api) followTask(ctx context.Context, id string) error {
	var status schemas.TaskStatus
	var began time.Time
	err := c.updates(ctx, id, func(u schemas.TaskUpdate, raw string) error {
		if u.What == schemas.TaskWhatOutput { // see weir tasks logs
			return nil
		}
		if status = u.Status; began.IsZero() {
			began = u.Time
		}
		if c.asJSON {
			_, err := fmt.Fprintln(c.Out, raw)
			return err
		}
		if _, err := fmt.Fprintf(c.Out, "%s  %9s  ", u.Time.Local().Format(time.TimeOnly), sinceText(began, u.Time)); err != nil {
			return err
		}
		return printOutcome(c.Out, updateText(u)+"\n")
	})
	if err == nil && ctx.Err() == nil && status != schemas.TaskStatusCompleted {
		return Printed()
	}
	return err
}

// sinceText is the time from the beginning of a task to an event.
func sinceText(began, at time.Time) string {
	d := max(at.Sub(began), 0)
	if d < time.Minute {
		return "+" + d.Round(100*time.Millisecond).String()
	}
	return "+" + d.Round(time.Second).String()
}

// updateText is an update for a person: the status, the event, and the members that the event has.
func updateText(u schemas.TaskUpdate) string {
	about := ""
	switch {
	case u.Inquiry > 0 && u.What == string(schemas.TaskAsked):
		about = fmt.Sprintf("question %d; answer it with: weir tasks answer %s --inquiry %d TEXT", u.Inquiry, u.TaskID, u.Inquiry)
	case u.Inquiry > 0:
		about = fmt.Sprintf("question %d", u.Inquiry)
	case u.Head != "":
		about = u.Head
	case u.Lease > 0:
		about = fmt.Sprintf("lease %d", u.Lease)
	}
	return fmt.Sprintf("%-10s %s", u.Status, oneLine(joined(" ", u.What, about, u.Reason, string(u.Code))))
}

func newTaskLogs(env *Env) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the output of a task's command", Args: Exactly(1, "the id of a task"),
		Example: `  weir tasks logs 01890a5d-…
  weir tasks logs 01890a5d-… --follow`,
		Long: `Print the output of the command that a runner started for a task. The runner sends it in
pieces every few seconds, without the task's token. Of output that is too much, the end
is kept. The runner has the complete file. With --json, print the pieces.`,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		l := &taskLog{api: c}
		if follow {
			return c.updates(ctx, args[0], func(u schemas.TaskUpdate, _ string) error { return l.piece(u) })
		}
		for u, err := range history[schemas.TaskUpdate](ctx, c, within(schemas.RouteTasks, args[0], ""), everything) {
			if err == nil {
				err = l.piece(u)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func newTaskDiff(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use: "diff ID", Short: "Print what a task has pushed, as a diff", Example: "  weir tasks diff 01890a5d-…", Args: Exactly(1, "the id of a task"),
	}, func(ctx context.Context, c *api, args []string) error {
		resp, err := c.Do(ctx, http.MethodGet, within(schemas.RouteTasks, args[0], "/diff"), nil, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return client.ErrorOf(resp)
		}
		diff, err := io.ReadAll(resp.Body) // the node bounds it
		if err != nil {
			return err
		}
		out := c.Out
		if !Terminal(out) {
			out = Unescaped(out)
		}
		_, err = out.Write(diff)
		return err
	})
}

type taskLog struct {
	*api
	lease int
	end   int64 // of the last piece
}

// piece prints an update that is a piece of output: of one that overlaps the piece before, the rest.
func (l *taskLog) piece(u schemas.TaskUpdate) error {
	if u.What != schemas.TaskWhatOutput {
		return nil
	}
	if l.asJSON {
		return PrintDocument(l.Out, u)
	}
	var missing error
	if u.Lease != l.lease {
		if l.end > 0 {
			_, missing = fmt.Fprintf(l.Err, "\n[another lease]\n")
		}
		l.lease, l.end = u.Lease, 0
	}
	text, end := u.Text, u.At+int64(len(u.Text))
	switch {
	case end <= l.end:
		return missing
	case u.At < l.end:
		text = text[l.end-u.At:]
	case u.At > l.end:
		_, missing = fmt.Fprintf(l.Err, "\n[%d bytes are left out]\n", u.At-l.end)
	}
	l.end = end
	_, err := fmt.Fprint(l.Out, text)
	return errors.Join(missing, err)
}
