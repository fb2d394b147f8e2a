package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newTaskList(env *Env) *cobra.Command {
	var f clientFlags
	status, limit := "", 50
	cmd := &cobra.Command{
		Use: "ls", Short: "list the tasks, newest first", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				query := url.Values{}
				if status != "" {
					query.Set("status", status)
				}
				var fresh schemas.Freshness
				all, err := pages(cmd.Context(), func(ctx context.Context, query url.Values) (schemas.Page[schemas.TaskView], error) {
					page, err := c.Tasks(ctx, query)
					fresh = page.Freshness
					return schemas.Page[schemas.TaskView]{Items: page.Items, Next: page.Next}, err
				}, query, limit)
				if err != nil {
					return err
				}
				if err := printTasks(env, all, f.asJSON); err != nil {
					return err
				}
				return behindNote(env, fresh)
			})
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&status, "status", "", "only those: Queued, Running, Completed, Failed, Canceled or Expired")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	return cmd
}

// pages reads a list page by page, until there is no more of it or as many as limit.
func pages[T any](
	ctx context.Context, read func(ctx context.Context, query url.Values) (schemas.Page[T], error), query url.Values, limit int,
) (all []T, err error) {
	for {
		page, err := read(ctx, query)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if len(all) >= limit || page.Next == "" {
			return all[:min(len(all), limit)], nil
		}
		query.Set("cursor", page.Next)
	}
}

func printTasks(env *Env, all []schemas.TaskView, asJSON bool) error {
	const empty = "there are no such tasks; `weir tasks create` makes one"
	return printList(env, asJSON, all, empty, "ID\tSTATUS\tREPO\tPUSHES\tCREATED\tDESCRIPTION", func(t schemas.TaskView) []any {
		first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		return []any{t.ID, standing(t), t.Repo, t.Pushes, when(t.Created), oneLine(cut(first, 60))}
	})
}

// standing is a task's state, and what it waits for if that is a person.
func standing(t schemas.TaskView) string {
	for _, q := range t.Inquiries {
		if q.Answer == nil && !t.Status.Final() {
			return string(t.Status) + ", asks"
		}
	}
	return string(t.Status)
}

func newTaskShow(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "show ID", Short: "show one task", Args: Exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error {
				t, err := c.Task(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if f.asJSON {
					return printDocuments(env.Out, t)
				}
				return printTask(env.Out, t)
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// printTask shows a task to a person.
func printTask(out io.Writer, t schemas.TaskView) error {
	table := newTable(out)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, strings.ReplaceAll(escaped(value, "\n"), "\n", "\n\t"))
		}
	}
	row("task", t.ID)
	row("status", standing(t))
	row("why", strings.TrimSpace(t.Reason+" "+string(t.Code)+" "+t.Message))
	row("description", t.Description)
	row("result", t.Result)
	row("repository", t.RepoURL)
	row("branch", t.Branch)
	switch {
	case t.Moved:
		row("head", fmt.Sprintf("%s, moved from %s (pushes: %d)", t.Head, t.Base, t.Pushes))
	case t.Head != "":
		row("head", t.Head+", where it began")
	}
	row("model", t.Model)
	row("pool", t.Pool)
	row("created", when(t.Created))
	row("started", when(t.Started))
	row("deadline", when(t.Deadline))
	row("ended", when(t.Ended))
	for _, q := range t.Inquiries {
		row(fmt.Sprintf("question %d", q.N), q.Question)
		if q.Answer != nil {
			row("answer", *q.Answer)
		} else if !t.Status.Final() {
			row("answer", fmt.Sprintf("none yet: weir tasks answer %s --inquiry %d TEXT", t.ID, q.N))
		}
	}
	return table.Flush()
}
