package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

func newTaskLogs(env *Env) *cobra.Command {
	var f clientFlags
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
	return f.command(env, cmd, func(ctx context.Context, c *api, args []string) error {
		l := &taskLog{api: c}
		if follow {
			return l.follow(ctx, args[0])
		}
		return l.print(ctx, args[0])
	})
}

// taskLog prints the pieces of a task's output.
type taskLog struct {
	*api
	lease int
	end   int64 // of the last piece
}

// print prints the pieces that are stored.
func (l *taskLog) print(ctx context.Context, id string) error {
	query := url.Values{"limit": {strconv.Itoa(biggestPage)}}
	for {
		page, err := l.TaskEvents(ctx, id, query)
		if err != nil {
			return err
		}
		for _, u := range page.Items {
			if err := l.piece(u); err != nil {
				return err
			}
		}
		if len(page.Items) == 0 || page.Next == "" {
			return nil
		}
		query.Set("after", page.Next)
	}
}

// follow prints the pieces until the task ends.
func (l *taskLog) follow(ctx context.Context, id string) error {
	return l.Follow(ctx, schemas.RouteTasks+"/"+url.PathEscape(id)+"/events", func(e sse.Event) error {
		var u schemas.TaskUpdate
		if err := json.Unmarshal([]byte(e.Data), &u); err != nil {
			return fmt.Errorf("the stream holds something that is not JSON: %w", err)
		}
		return l.piece(u)
	})
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
