package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newTaskList(env *Env) *cobra.Command {
	var f clientFlags
	status, limit := "", 50
	cmd := &cobra.Command{Use: "ls", Short: "List tasks, newest first", Example: "  weir tasks ls --status Running", Args: Exactly(0, "no arguments")}
	cmd.Flags().StringVar(&status, "status", "", "only this status: Queued, Running, Completed, Failed, Canceled or Expired")
	cmd.Flags().IntVar(&limit, "limit", 50, "the most tasks to list")
	return f.command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		query := url.Values{}
		if status != "" {
			query.Set("status", status)
		}
		var last schemas.TaskPage
		all := pages(func() (items []schemas.TaskView, next string, err error) {
			last, err = c.Tasks(ctx, query)
			return last.Items, last.Next, err
		}, query, limit)
		const empty = "there are no such tasks; `weir tasks create` makes one"
		err := printList(c, all, empty, "ID\tSTATUS\tREPO\tPUSHES\tCREATED\tDESCRIPTION", func(t schemas.TaskView) []any {
			first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
			return []any{t.ID, standingOf(t), t.Repo, t.Pushes, when(t.Created), oneLine(cut(first, 60))}
		})
		if err == nil {
			c.behindNote(last.Freshness)
		}
		return err
	})
}

// standingOf is the status of a task, and whether it waits for an answer.
func standingOf(t schemas.TaskView) standing {
	for _, q := range t.Inquiries {
		if q.Answer == nil && !t.Status.Final() {
			return standing(t.Status) + ", asks"
		}
	}
	return standing(t.Status)
}

func newTaskShow(env *Env) *cobra.Command {
	var f clientFlags
	return f.command(env, &cobra.Command{Use: "show ID", Short: "Show one task", Example: "  weir tasks show 01890a5d-…", Args: Exactly(1, "the id of a task")},
		func(ctx context.Context, c *api, args []string) error {
			t, err := c.Task(ctx, args[0])
			if err != nil {
				return err
			}
			if c.asJSON {
				return PrintDocument(c.Out, t)
			}
			return printFacts(c.Out, "\n", taskFacts(t))
		})
}

// taskFacts is a task for a person.
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
		{"status", string(standingOf(t))},
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
