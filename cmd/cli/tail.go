package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

func newTail(env *Env) *cobra.Command {
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
				return c.Follow(cmd.Context(), "/v1/actions/"+url.PathEscape(args[1])+"/events", show)
			case args[0] == "actions":
				return c.watchActions(cmd.Context(), env.Out, f.asJSON)
			case args[0] == "evidence":
				return c.Follow(cmd.Context(), "/v1/evidence", show)
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

// showEvent prints one event.
func showEvent(env *Env, f *clientFlags, e sse.Event) error {
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

// watchEvery is how often a list is looked at. Lists are not streams: one
// action's events are, and the evidence is.
const watchEvery = 500 * time.Millisecond

// watch calls look again and again until ctx ends, which is no error. Only a
// first look that fails ends it.
func watch(ctx context.Context, look func(context.Context) error) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for seen := false; ; {
		err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the person has seen enough
		case err == nil:
			seen = true
		case !seen:
			return err
		} // a server that was there comes back: a restart is not the end
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watcher knows what was shown of the list of actions.
type watcher struct {
	shown map[string]schemas.Status
	// since is when the oldest action that is watched was accepted.
	since time.Time
}

// watchActions prints each action as it is accepted and as its status changes,
// beginning with the newest ten.
func (c *api) watchActions(ctx context.Context, out io.Writer, asJSON bool) error {
	w := &watcher{shown: map[string]schemas.Status{}}
	return watch(ctx, func(ctx context.Context) error {
		changed, err := w.look(ctx, c)
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(changed) { // the list is newest first
			w.shown[e.ID] = e.Status
			if err := printEntry(out, e, asJSON); err != nil {
				return err
			}
		}
		return nil
	})
}

// quietRun is how many unchanged actions in a row end a look: what lies behind
// them is history.
const quietRun = 20

// look lists the actions whose status is not the one that was shown.
func (w *watcher) look(ctx context.Context, c *api) ([]schemas.ActionEntry, error) {
	if w.since.IsZero() {
		return w.begin(ctx, c)
	}
	var changed []schemas.ActionEntry
	for cursor, quiet := "", 0; ; {
		page, err := c.actions(ctx, 50, cursor)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Items {
			if e.Created.Before(w.since) || quiet == quietRun {
				return changed, nil
			}
			if quiet++; w.shown[e.ID] != e.Status {
				quiet = 0
				changed = append(changed, e)
			}
		}
		if cursor = page.Next; cursor == "" {
			return changed, nil
		}
	}
}

func (w *watcher) begin(ctx context.Context, c *api) ([]schemas.ActionEntry, error) {
	page, err := c.actions(ctx, 10, "")
	w.since = time.Unix(1, 0)
	if n := len(page.Items); n > 0 {
		w.since = page.Items[n-1].Created
	}
	return page.Items, err
}

func (c *api) actions(ctx context.Context, limit int, cursor string) (schemas.ActionPage, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return c.Actions(ctx, query)
}

func printEntry(out io.Writer, e schemas.ActionEntry, asJSON bool) error {
	if asJSON {
		return printDocuments(out, e)
	}
	_, err := fmt.Fprintf(out, "%s  %-4s  %s  %-15s %s\n", e.Created.Local().Format("15:04:05.000"), e.Kind, e.ID, e.Status, e.Code)
	return err
}

// watchDead prints each dead letter as it is parked, from the first one on.
func (c *api) watchDead(ctx context.Context, out io.Writer, asJSON bool) error {
	last := uint64(0)
	return watch(ctx, func(ctx context.Context) error {
		return c.deadLetters(ctx, last, func(d schemas.DeadLetterView) error {
			last = d.Seq
			if asJSON {
				return printDocuments(out, d)
			}
			return printLetter(out, d)
		})
	})
}
