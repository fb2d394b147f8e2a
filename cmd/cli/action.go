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
	cmd := &cobra.Command{
		Use: "show ID", Short: "show where an action stands, and how it came there", Args: Exactly(1, "the id of an action"),
		Example: `  weir actions show 01890a5d-…
  weir actions show 01890a5d-… --json | jq .result`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error { return c.showAction(cmd.Context(), env.Out, args[0], f.asJSON) })
		},
	}
	f.register(cmd, env)
	return cmd
}

func (c *api) showAction(ctx context.Context, out io.Writer, id string, asJSON bool) error {
	if asJSON {
		var raw json.RawMessage
		if err := c.Action(ctx, id, &raw); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, string(raw))
		return err
	}
	var view schemas.ActionView
	if err := c.Action(ctx, id, &view); err != nil {
		return err
	}
	printAction(out, view)
	fmt.Fprintln(out)
	events, more, err := c.timeline(ctx, id)
	if err != nil {
		return err
	}
	printTimeline(out, view.Created, events)
	if more {
		fmt.Fprintf(out, "… there is more: `weir tail actions %s`\n", id)
	}
	return nil
}

// printAction is what there is to say of an action as a whole.
func printAction(out io.Writer, v schemas.ActionView) {
	table := newTable(out)
	defer table.Flush()
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, oneLine(text))
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.RFC3339)
	}
	row("id", v.ID)
	row("kind", strings.TrimSpace(string(v.Kind)+" "+v.TaskType))
	row("status", string(v.Status))
	if v.CancelRequested {
		row("", "somebody asked it to stop")
	}
	row("code", string(v.Code))
	row("message", v.Message)
	row("class", string(v.Class))
	row("created", at(v.Created))
	row("not before", at(v.NotBefore))
	row("deadline", at(v.Deadline))
	row("settled", at(v.Settled))
	row("made from", v.Supersedes)
	row("followed by", v.SupersededBy)
	if w := v.Waiting; w != nil {
		row("waits for", strings.TrimSpace(w.For+" "+at(w.Until)))
	}
	if d := v.Decision; d != nil {
		words := "allowed"
		if !d.Allowed {
			words = "denied, " + string(d.Code)
		}
		if d.Entry != "" {
			words += " by " + d.Entry
		}
		if d.Reason != "" {
			words += ": " + d.Reason
		}
		row("decision", words)
	}
	if r := v.Resolution; r != nil {
		row("resolved", strings.TrimSpace(r.Effect+" "+r.Note))
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

func printTimeline(out io.Writer, began time.Time, events []schemas.EventView) {
	table := newTable(out)
	defer table.Flush()
	fmt.Fprintln(table, "AFTER\tEVENT\t")
	same, last := 0, schemas.EventType("")
	flush := func() {
		if same > 1 {
			fmt.Fprintf(table, "\t%s\t%d of them\n", last, same)
		}
		same = 0
	}
	for _, e := range events {
		if e.Type == schemas.EventDelta || e.Type == schemas.EventProgress {
			if same++; e.Type != last && same > 1 {
				same--
				flush()
				same = 1
			}
			last = e.Type
			if same > 1 {
				continue
			}
		} else {
			flush()
		}
		ms := max(float64(e.Time.Sub(began))/float64(time.Millisecond), 0)
		fmt.Fprintf(table, "+%s\t%s\t%s\n", took(&ms), e.Type, oneLine(cut(eventText(e), 160)))
	}
	flush()
}

// attemptedText is the result of an attempt, in a few words.
func attemptedText(a *schemas.EventViewAttempted) string {
	text := "in " + took(&a.DurationMS)
	if a.Code != "" {
		text = string(a.Code) + " " + text
	}
	if a.Status > 0 {
		text = strconv.Itoa(a.Status) + " " + text
	}
	return text
}

// eventText is what an event says, in a few words.
func eventText(e schemas.EventView) string {
	var words []string
	add := func(more ...string) {
		for _, w := range more {
			if w != "" {
				words = append(words, w)
			}
		}
	}
	switch {
	case e.Action != nil:
		add(string(e.Action.Kind), e.Action.TaskType, string(e.Action.Class))
	case e.Settled != nil:
		add(string(e.Settled.Outcome), string(e.Settled.Code), e.Settled.Message)
		if a := e.Attempted; a != nil {
			add(fmt.Sprintf("(attempt %d: %s)", a.Number, attemptedText(a)))
		}
	case e.Attempted != nil:
		a := e.Attempted
		add(fmt.Sprintf("%d of step %d", a.Number, a.Step), attemptedText(a))
	case e.Attempt != nil:
		add(fmt.Sprintf("%d of step %d, by", e.Attempt.Number, e.Attempt.Step), orDash(e.Attempt.Decision.Entry))
	case e.Waiting != nil:
		add("for", e.Waiting.For)
	case e.Task != nil:
		add(string(e.Task.What), string(e.Task.Status))
	case e.Resolution != nil:
		add(e.Resolution.Effect, e.Resolution.Note)
	case e.Superseded != nil:
		add("by", e.Superseded.By)
	}
	return strings.Join(words, " ")
}
