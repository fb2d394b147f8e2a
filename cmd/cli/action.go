package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newActionShow(env *Env) *cobra.Command {
	var f clientFlags
	return f.command(env, &cobra.Command{
		Use: "show ID", Short: "Show an action and its events", Args: Exactly(1, "the id of an action"),
		Example: `  weir actions show 01890a5d-…
  weir actions show 01890a5d-… --json | jq .result`,
	}, func(ctx context.Context, c *api, args []string) error { return c.showAction(ctx, args[0]) })
}

func (c *api) showAction(ctx context.Context, id string) error {
	if c.asJSON {
		var raw json.RawMessage
		err := c.Action(ctx, id, &raw)
		return printData(c.Out, raw, err)
	}
	var view schemas.ActionView
	if err := c.Action(ctx, id, &view); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s\n\n", oneLine(viewCall(view)))
	if err := printFacts(c.Out, "", actionFacts(view)); err != nil {
		return err
	}
	fmt.Fprintln(c.Out)
	events, more, err := c.timeline(ctx, id)
	if err != nil {
		return err
	}
	printTimeline(c.Out, view.Created, events)
	if more {
		fmt.Fprintf(c.Out, "… there is more: `weir tail actions %s`\n", id)
	}
	if view.ResolveURL != "" && view.Resolution == nil {
		fmt.Fprintf(c.Err, "look at the target, then record what you find: weir actions resolve %s --applied, or --not-applied\n", id)
	}
	return nil
}

// actionFacts is what there is to say of an action as a whole.
func actionFacts(v schemas.ActionView) [][2]string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.RFC3339)
	}
	var asked, waits, decided, resolved string
	if v.CancelRequested {
		asked = "a cancel was requested"
	}
	if w := v.Waiting; w != nil {
		waits = joined(" ", w.For, at(w.Until))
	}
	if d := v.Decision; d != nil {
		decided = "allowed"
		if !d.Allowed {
			decided = "denied, " + string(d.Code)
		}
		if d.Entry != "" {
			decided += " by " + d.Entry
		}
		decided = joined(": ", decided, d.Reason)
	}
	if r := v.Resolution; r != nil {
		resolved = joined(" ", r.Effect, r.Note)
	}
	return [][2]string{
		{"id", v.ID},
		{"kind", string(v.Kind)},
		{"agent", v.Agent},
		{"caller", v.Caller},
		{"status", string(v.Status)},
		{"", asked},
		{"code", string(v.Code)},
		{"message", v.Message},
		{"class", string(v.Class)},
		{"created", at(v.Created)},
		{"not before", at(v.NotBefore)},
		{"deadline", at(v.Deadline)},
		{"settled", at(v.Settled)},
		{"made from", v.Supersedes},
		{"followed by", v.SupersededBy},
		{"waits for", waits},
		{"decision", decided},
		{"resolved", resolved},
	}
}

// mostEvents is how long a timeline is at most.
const mostEvents = 1000

// timeline reads an action's events so far.
func (c *api) timeline(ctx context.Context, id string) (events []schemas.EventView, more bool, err error) {
	query := url.Values{"limit": {strconv.Itoa(biggestPage)}}
	for len(events) < mostEvents {
		page, err := c.ActionEvents(ctx, id, query)
		if err != nil {
			return nil, false, err
		}
		events = append(events, page.Items...)
		if page.Next == "" || len(page.Items) == 0 {
			return events, false, nil
		}
		query.Set("after", page.Next)
	}
	return events, true, nil
}

// printTimeline prints events. Of deltas and of progress that follow one another it prints the first and how
// many they are.
func printTimeline(out io.Writer, began time.Time, events []schemas.EventView) {
	table := newTable(out)
	defer table.Flush()
	fmt.Fprintln(table, "AFTER\tEVENT\t")
	same := 0
	for i, e := range events {
		if same++; same == 1 {
			ms := max(float64(e.Time.Sub(began))/float64(time.Millisecond), 0)
			printRow(table, "+"+took(&ms), e.Type, oneLine(cut(eventText(e), 160)))
		}
		repeats := e.Type == schemas.EventDelta || e.Type == schemas.EventProgress
		if repeats && i+1 < len(events) && events[i+1].Type == e.Type {
			continue
		}
		if same > 1 {
			printRow(table, "", e.Type, fmt.Sprintf("%d of them", same))
		}
		same = 0
	}
}

// attemptedText is the result of an attempt, in a few words.
func attemptedText(a *schemas.EventViewAttempted) string {
	status := ""
	if a.Status > 0 {
		status = strconv.Itoa(a.Status)
	}
	text := joined(" ", status, string(a.Code), strings.ReplaceAll(a.Effect, "_", " "), "in "+took(&a.DurationMS))
	if !a.Sent {
		text += ", not sent"
	}
	return text
}

// attemptName is the number of an attempt, or of a probe of one, with the step of a plan after its
// first one.
func attemptName(step, number, probe int) string {
	name := fmt.Sprintf("attempt %d", number)
	if probe > 0 {
		name = fmt.Sprintf("attempt %d, probe %d", probe, number)
	}
	if step == 0 {
		return name
	}
	return fmt.Sprintf("step %d, %s", step+1, name)
}

// eventText is what an event says, in a few words.
func eventText(e schemas.EventView) string {
	switch {
	case e.Action != nil:
		return joined(" ", string(e.Action.Kind), e.Action.TaskType, string(e.Action.Class))
	case e.Settled != nil:
		attempt := ""
		if a := e.Attempted; a != nil {
			attempt = fmt.Sprintf("(%s: %s)", attemptName(a.Step, a.Number, a.Probe), attemptedText(a))
		}
		return joined(" ", string(e.Settled.Outcome), string(e.Settled.Code), e.Settled.Message, attempt)
	case e.Attempted != nil:
		return attemptName(e.Attempted.Step, e.Attempted.Number, e.Attempted.Probe) + ": " + attemptedText(e.Attempted)
	case e.Attempt != nil:
		return attemptName(e.Attempt.Step, e.Attempt.Number, e.Attempt.Probe) + ", allowed by " + orDash(e.Attempt.Decision.Entry)
	case e.Waiting != nil:
		return joined(" ", "for", e.Waiting.For)
	case e.Task != nil:
		return joined(" ", string(e.Task.What), string(e.Task.Status))
	case e.Resolution != nil:
		return joined(" ", e.Resolution.Effect, e.Resolution.Note)
	case e.Superseded != nil:
		return joined(" ", "by", e.Superseded.By)
	default:
		return ""
	}
}
