package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

func newTail(env *Env) *cobra.Command {
	f := clientFlags{words: true}
	const takes = "tail takes one of: actions [ID], evidence, dead"
	return f.command(env, &cobra.Command{
		Use:   "tail actions [ID] | evidence | dead",
		Short: "follow what happens, as it happens",
		Example: `  weir tail actions                     # each action, as it is accepted and as it goes on
  weir tail actions 01890a5d-…          # one action, from its beginning to its end
  weir tail evidence --json | jq .payload`,
		ValidArgs: []string{"actions", "evidence", "dead"},
		Args:      between(1, 2, takes),
	}, func(ctx context.Context, c *api, args []string) error {
		switch what := args[0]; {
		case len(args) == 2 && what == "actions":
			return c.Follow(ctx, eventsPath(args[1]), c.showEvent)
		case len(args) == 2:
			return usageError{errors.New(takes)}
		case what == "actions":
			return c.watchActions(ctx)
		case what == "evidence":
			return c.Follow(ctx, "/v1/evidence", c.showEvent)
		case what == "dead":
			return c.watchDead(ctx)
		default:
			return usageError{fmt.Errorf("tail knows no %q; it takes actions, evidence or dead", what)}
		}
	})
}

// eventsPath is the route of an action's events.
func eventsPath(id string) string { return "/v1/actions/" + url.PathEscape(id) + "/events" }

// showEvent prints one event.
func (c *api) showEvent(e sse.Event) error {
	if c.asJSON {
		_, err := fmt.Fprintln(c.Out, e.Data)
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		return fmt.Errorf("the stream holds something that is not JSON: %w", err)
	}
	words := []string{fmt.Sprintf("%-8s %-10s", e.LastEventID, e.Type)}
	for _, key := range []string{"time", "action_id", "kind", "entry", "code", "reason"} {
		v, _ := doc[key].(string)
		words = append(words, v)
	}
	nested, ok := doc[e.Type].(map[string]any)
	if !ok {
		nested, ok = doc["data"].(map[string]any)
	}
	if ok {
		if brief, err := json.Marshal(nested); err == nil {
			words = append(words, cut(string(brief), 160))
		}
	}
	_, err := fmt.Fprintln(c.Out, oneLine(joined("  ", words...)))
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
func (c *api) watchActions(ctx context.Context) error {
	w := &watcher{shown: map[string]schemas.Status{}}
	return watch(ctx, func(ctx context.Context) error {
		changed, err := w.look(ctx, c)
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(changed) { // the list is newest first
			w.shown[e.ID] = e.Status
			created := e.Created.Local().Format("15:04:05.000")
			if err := c.print(e, "%s  %-4s  %s  %-15s %s", created, e.Kind, e.ID, e.Status, e.Code); err != nil {
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
	query := url.Values{"limit": {"50"}}
	if w.since.IsZero() {
		query.Set("limit", "10")
	}
	var changed []schemas.ActionEntry
	for quiet := 0; ; {
		page, err := c.Actions(ctx, query)
		if err != nil {
			return nil, err
		}
		if w.since.IsZero() {
			w.since = time.Unix(1, 0)
			if n := len(page.Items); n > 0 {
				w.since = page.Items[n-1].Created
			}
			return page.Items, nil
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
		if page.Next == "" {
			return changed, nil
		}
		query.Set("cursor", page.Next)
	}
}

// watchDead prints each dead letter as it is parked, from the first one on.
func (c *api) watchDead(ctx context.Context) error {
	last := uint64(0)
	return watch(ctx, func(ctx context.Context) error {
		for d, err := range c.deadLetters(ctx, last) {
			if err == nil {
				err = c.printLetter(c.Out, d)
			}
			if err != nil {
				return err
			}
			last = d.Seq
		}
		return nil
	})
}
