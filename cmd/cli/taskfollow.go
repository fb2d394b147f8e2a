package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

func newTaskFollow(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "follow ID", Short: "follow a task until it ends", Args: Exactly(1, "the id of a task"),
		Long: `Follow a task from its beginning until it ends. Exit 0 if it is completed, else 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error { return f.followTask(cmd.Context(), env, c, args[0]) })
		},
	}
	f.register(cmd, env)
	return cmd
}

// followTask prints the updates of a task until it ends.
func (f *clientFlags) followTask(ctx context.Context, env *Env, c *api, id string) error {
	var last schemas.TaskUpdate
	err := c.Follow(ctx, taskPath(id, "/events"), func(e sse.Event) error {
		if err := json.Unmarshal([]byte(e.Data), &last); err != nil {
			return fmt.Errorf("the stream holds something that is not JSON: %w", err)
		}
		if f.asJSON {
			_, err := fmt.Fprintln(env.Out, e.Data)
			return err
		}
		_, err := fmt.Fprintln(env.Out, updateLine(last))
		return err
	})
	if err == nil && ctx.Err() == nil && last.Status != schemas.TaskStatusCompleted {
		return quietError{}
	}
	return err
}

// updateLine is an update for a person.
func updateLine(u schemas.TaskUpdate) string {
	line := fmt.Sprintf("%s  %-10s %s", u.Time.Local().Format(time.TimeOnly), u.Status, u.What)
	switch {
	case u.Inquiry > 0:
		line += fmt.Sprintf(" question %d", u.Inquiry)
	case u.Head != "":
		line += " " + u.Head
	case u.Lease > 0:
		line += fmt.Sprintf(" lease %d", u.Lease)
	}
	return strings.TrimRight(line+" "+strings.TrimSpace(u.Reason+" "+string(u.Code)), " ")
}

func newTaskAnswer(env *Env) *cobra.Command {
	var f clientFlags
	var req schemas.AnswerRequest
	cmd := &cobra.Command{
		Use: "answer ID TEXT", Short: "answer what a task's agent asks", Args: Exactly(2, "the id of a task and a text, @FILE or -"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Answer, err = textArgument(env, args[1]); err != nil {
				return err
			}
			return f.change(env, "is answered", func(c *api) (schemas.TaskView, error) { return c.AnswerTask(cmd.Context(), args[0], req) })
		},
	}
	f.register(cmd, env)
	cmd.Flags().IntVar(&req.Inquiry, "inquiry", 0, "the number of the question (default the one that is open)")
	return cmd
}

func newTaskCancel(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "end a task; its token stops to work at once", Args: Exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(env, "is told to end, and its token is dead", func(c *api) (schemas.TaskView, error) {
				return c.CancelTask(cmd.Context(), args[0])
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// change sends a change of one task and shows what became of it.
func (f *clientFlags) change(env *Env, done string, send func(c *api) (schemas.TaskView, error)) error {
	return f.asking(env, func(c *api) error {
		t, err := send(c)
		if err != nil {
			return err
		}
		return printOne(env, f.asJSON, t, "task %s %s", t.ID, done)
	})
}

func newTaskToken(env *Env) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use: "token ID", Short: "make another token for a task; the one before stops to work", Args: Exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error {
				made, err := c.TaskToken(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return f.hand(env, made)
			})
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&f.tokenFile, "task-token-file", "", "a file to write the token to, instead of printing it")
	return cmd
}
