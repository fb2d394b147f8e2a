package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/client"
	"weir/internal/nearest"
	"weir/schemas"
)

func newTail(env *Env) *cobra.Command {
	const takes = "tail takes one of: actions [ID], evidence, dead"
	return (&clientFlags{words: true}).command(env, &cobra.Command{
		Use:   "tail actions [ID] | evidence | dead",
		Short: "Follow actions, evidence or dead letters as they come",
		Long: `Follow actions, evidence or dead letters as they come. The numbers of events and of evidence
only grow. A gap between two of them, such as after a crash, means nothing.`,
		Example: `  weir tail actions                     # each action, as it is accepted and as it goes on
  weir tail actions 01890a5d-…          # one action, from its beginning to its end
  weir tail evidence --json | jq .payload`,
		ValidArgs: []string{"actions", "evidence", "dead"},
		Args:      between(1, 2, takes),
	}, func(ctx context.Context, c *api, args []string) error {
		switch what := args[0]; {
		case len(args) == 2 && what == "actions":
			return c.Follow(ctx, within(routeActions, args[1], "/events"), func(e sse.Event) error {
				if err := c.showEvent(e); err != nil || c.asJSON || e.Type != string(schemas.EventAccepted) {
					return err
				}
				view, err := c.Action(ctx, args[1])
				if err != nil {
					return nil //nolint:nilerr // its result may be gone, and its events be there
				}
				return printCells(c.Out, "  ", []any{"       ", "call      ", viewCall(view)})
			})
		case len(args) == 2:
			return Usage(errors.New(takes))
		case what == "actions":
			return c.watchActions(ctx)
		case what == "evidence":
			return c.Follow(ctx, "/v1/evidence", c.showEvent)
		case what == "dead":
			return c.watchDead(ctx)
		default:
			return usagef("%q is not actions, evidence or dead%s", what, nearest.Hint(what, []string{"actions", "evidence", "dead"}))
		}
	})
}

func (c *api) showEvent(e sse.Event) error {
	if c.asJSON {
		_, err := fmt.Fprintln(c.Out, e.Data)
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		return fmt.Errorf("the stream holds something that is not JSON: %w", err)
	}
	text := func(key string) string {
		v, _ := doc[key].(string)
		return v
	}
	cells := []any{fmt.Sprintf("%-7s", e.LastEventID), tinted{fmt.Sprintf("%-10s", e.Type), eventOutcome(e.Type, text("code"), doc["settled"])}}
	for _, key := range []string{"time", "action_id", "kind", "entry", "code", "reason"} {
		cells = append(cells, text(key))
	}
	payload, err := json.Marshal(doc["payload"])
	if err != nil {
		return err
	}
	cells = append(cells, cut(evidenceText(payload), 160))
	for _, key := range []string{e.Type, "data"} {
		if nested, ok := doc[key].(map[string]any); ok {
			brief, err := json.Marshal(nested)
			if err != nil {
				return err
			}
			cells = append(cells, cut(string(brief), 160))
			break
		}
	}
	return printCells(c.Out, "  ", filled(cells))
}

// eventOutcome is the outcome in whose colour a line of an event is: of its end, or what its code says.
func eventOutcome(kind, code string, settled any) string {
	end, _ := settled.(map[string]any)
	if outcome, ok := end["outcome"].(string); ok {
		return outcome
	}
	if code != "" {
		return string(outcomeOfExit(exitOf(schemas.Code(code))))
	}
	return kind
}

// filled are those cells that have a text.
func filled(cells []any) []any {
	return slices.DeleteFunc(cells, func(cell any) bool { return fmt.Sprint(cell) == "" })
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

// watch calls look again and again until ctx ends, which is no error. A first look that fails ends it, and a later
// one that the server refuses. It notes on out since when there is no answer.
func watch(ctx context.Context, out io.Writer, look func(context.Context) error) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last time.Time
	for silent := false; ; {
		err := look(ctx)
		no, refused := errors.AsType[*client.Error](err)
		switch {
		case ctx.Err() != nil:
			return nil // the person has seen enough
		case err == nil:
			last, silent = time.Now(), false
		case last.IsZero(), refused && no.Status >= 400 && no.Status < 500 && no.Status != http.StatusTooManyRequests:
			return err
		case !silent: // a server that was there comes back: a restart is not the end
			silent = true
			fmt.Fprintf(out, "weir: no answer since %s: %v\n", last.Format(time.TimeOnly), err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// quietRun is the number of unchanged actions in a row that ends a look: all older ones are history.
const quietRun = 20

// watchActions prints each action as it is accepted and as its status changes,
// beginning with the newest ten.
func (c *api) watchActions(ctx context.Context) error {
	shown := map[string]schemas.Status{}
	var since time.Time // when the oldest action that is watched was accepted
	limit := 10
	return watch(ctx, c.Err, func(ctx context.Context) error {
		var changed []schemas.ActionEntry
		quiet := 0
		for e, err := range list[schemas.ActionEntry](ctx, c, routeActions, nil, limit) {
			if err != nil {
				return err
			}
			if e.Created.Before(since) || quiet == quietRun {
				break
			}
			if quiet++; shown[e.ID] != e.Status {
				quiet = 0
				changed = append(changed, e)
			}
		}
		if n := len(changed); n > 0 && limit < everything {
			since = changed[n-1].Created
		}
		limit = everything
		for _, e := range slices.Backward(changed) { // the list is newest first
			shown[e.ID] = e.Status
			if err := c.printLine(e, "  ", tailCells(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

// watchDead prints each dead letter as it is parked, from the first one on.
func (c *api) watchDead(ctx context.Context) error {
	last := uint64(0)
	return watch(ctx, c.Err, func(ctx context.Context) error {
		for d, err := range c.deadLetters(ctx, last) {
			if err == nil {
				err = c.printLine(d, "\t", letterRow(d))
			}
			if err != nil {
				return err
			}
			last = d.Seq
		}
		return nil
	})
}
