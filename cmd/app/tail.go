package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"
)

func newTail(env *environment) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "tail actions [ID] | evidence | dead",
		Short: "follow what happens, as it happens",
		Example: `  weir tail actions                     # each action, as it is accepted and as it goes on
  weir tail actions 01890a5d-…          # one action, from its beginning to its end
  weir tail evidence --json | jq .payload`,
		ValidArgs: []string{"actions", "evidence", "dead"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || (len(args) == 2 && args[0] != "actions") {
				return usageError{errors.New("tail takes one of: actions [ID], evidence, dead")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			show := func(e sse.Event) error { return showEvent(env, &f, e) }
			switch {
			case len(args) == 2:
				return c.follow(cmd.Context(), "/v1/actions/"+url.PathEscape(args[1])+"/events", show)
			case args[0] == "actions":
				return c.watchActions(cmd.Context(), env.Out, f.asJSON)
			case args[0] == "evidence":
				return c.follow(cmd.Context(), "/v1/evidence", show)
			case args[0] == "dead":
				return c.watchDead(cmd.Context(), env.Out, f.asJSON)
			default:
				return usageError{fmt.Errorf("tail knows no %q; it takes actions, evidence or dead", args[0])}
			}
		},
	}
	f.register(cmd, env)
	return cmd
}

// follow reads a stream and comes back to it where it was cut, until the stream
// ends by itself, each fails, or ctx ends.
func (c *client) follow(ctx context.Context, path string, each func(sse.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return usageError{err}
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	var refused error
	conn := (&sse.Client{
		HTTPClient: c.http,
		ResponseValidator: func(r *http.Response) error {
			if r.StatusCode == http.StatusNoContent {
				refused = errEnded
			} else if r.StatusCode != http.StatusOK {
				refused = problemOf(r)
			}
			if refused != nil {
				cancel(refused)
			}
			return refused
		},
		Backoff: sse.Backoff{InitialInterval: 200 * time.Millisecond, MaxInterval: 5 * time.Second},
	}).NewConnection(req)
	conn.SubscribeToAll(func(e sse.Event) {
		if err := each(e); err != nil {
			cancel(err)
		}
	})
	err = conn.Connect()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errEnded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errEnded ends a follow: there will be nothing more.
var errEnded = errors.New("the stream has ended")

// showEvent prints one event.
func showEvent(env *environment, f *clientFlags, e sse.Event) error {
	if f.asJSON {
		_, err := fmt.Fprintln(env.Out, e.Data)
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		return fmt.Errorf("the stream holds something that is not JSON: %w", err)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s %-10s", e.LastEventID, e.Type)
	for _, key := range []string{"time", "action_id", "kind", "entry", "code", "reason"} {
		if v, ok := doc[key].(string); ok && v != "" {
			line.WriteString("  " + v)
		}
	}
	nested, ok := doc[e.Type].(map[string]any)
	if !ok {
		nested, ok = doc["data"].(map[string]any)
	}
	if ok {
		if brief, err := json.Marshal(nested); err == nil {
			line.WriteString("  " + cut(string(brief), 160))
		}
	}
	_, err := fmt.Fprintln(env.Out, oneLine(line.String()))
	return err
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
