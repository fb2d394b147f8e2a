package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

func newTaskFollow(env *environment) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "follow ID", Short: "follow a task until it ends", Args: exactly(1, "the id of a task"),
		Long: `Follow a task from its beginning until it ends. Exit 0 if it is completed, else 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *client) error { return f.followTask(cmd.Context(), env, c, args[0]) })
		},
	}
	f.register(cmd, env)
	return cmd
}

// followTask prints the updates of a task until it ends.
func (f *clientFlags) followTask(ctx context.Context, env *environment, c *client, id string) error {
	var last schemas.TaskUpdate
	err := c.follow(ctx, taskPath(id, "/events"), func(e sse.Event) error {
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

func newTaskAnswer(env *environment) *cobra.Command {
	var f clientFlags
	var req schemas.AnswerRequest
	cmd := &cobra.Command{
		Use: "answer ID TEXT", Short: "answer what a task's agent asks", Args: exactly(2, "the id of a task and a text, @FILE or -"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Answer, err = textArgument(env, args[1]); err != nil {
				return err
			}
			return f.change(cmd.Context(), env, taskPath(args[0], "/answer"), req, "is answered")
		},
	}
	f.register(cmd, env)
	cmd.Flags().IntVar(&req.Inquiry, "inquiry", 0, "the number of the question (default the one that is open)")
	return cmd
}

func newTaskCancel(env *environment) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "end a task; its token stops to work at once", Args: exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd.Context(), env, taskPath(args[0], "/cancel"), nil, "is told to end, and its token is dead")
		},
	}
	f.register(cmd, env)
	return cmd
}

// change sends a change of one task and shows what became of it.
func (f *clientFlags) change(ctx context.Context, env *environment, path string, body any, done string) error {
	return f.asking(env, func(c *client) error {
		var t schemas.TaskView
		if err := c.call(ctx, http.MethodPost, path, body, &t); err != nil {
			return err
		}
		if f.asJSON {
			return json.NewEncoder(env.Out).Encode(t)
		}
		_, err := fmt.Fprintf(env.Out, "task %s %s\n", t.ID, done)
		return err
	})
}

func newTaskToken(env *environment) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use: "token ID", Short: "make another token for a task; the one before stops to work", Args: exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *client) error {
				var made schemas.NewTask
				if err := c.call(cmd.Context(), http.MethodPost, taskPath(args[0], "/token"), nil, &made); err != nil {
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
