package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newActionShow(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use: "show ID", Short: "Show an action and its events", Args: Exactly(1, "the id of an action"),
		Example: `  weir actions show 01890a5d-…
  weir actions show 01890a5d-… --json | jq .result`,
	}, func(ctx context.Context, c *api, args []string) error { return c.showAction(ctx, args[0]) })
}

func (c *api) showAction(ctx context.Context, id string) error {
	route := within(routeActions, id, "")
	if c.asJSON {
		raw, err := get[json.RawMessage](ctx, c, route, nil)
		return c.print(raw, err, "")
	}
	view, err := c.Action(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s\n\n", oneLine(viewCall(view)))
	if err := printFacts(c.Out, "", actionFacts(view)); err != nil {
		return err
	}
	fmt.Fprintln(c.Out)
	var events []schemas.EventView
	for e, err := range history[schemas.EventView](ctx, c, route, mostEvents) {
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	printTimeline(c.Out, view.Created, events)
	if len(events) == mostEvents && c.last.Next != "" {
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
	var push schemas.PushResult
	if v.Kind == schemas.KindPush {
		_ = json.Unmarshal(v.Result, &push) // a push that has not ended has no result
	}
	return [][2]string{
		{"id", v.ID},
		{"kind", string(v.Kind)},
		{"agent", v.Agent},
		{"caller", v.Caller},
		{"task", v.Task},
		{"ref", push.Ref},
		{"update", joined("..", push.Old, push.New)},
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

func attemptedText(a *schemas.EventViewAttempted) string {
	text := joined(" ", positive(a.Status), string(a.Code), strings.ReplaceAll(a.Effect, "_", " "))
	if a.DurationMS > 0 || text == "" { // unknown if its worker is gone
		text = joined(" ", text, "in "+took(&a.DurationMS))
	}
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

// longestCall is the number of characters of a call in a line.
const longestCall = 60

// callText is a call for a person: its method, host and path, or the kind of an action that has no
// call of its own, with a name such as a repository's, an agent's or a model's.
func callText(kind schemas.Kind, c schemas.Called, name string) string {
	switch {
	case c.Host == "":
		return joined(" ", string(kind), c.Path, name)
	case c.Calls > 1:
		return fmt.Sprintf("%s %s%s (+%d)", c.Method, c.Host, c.Path, c.Calls-1)
	default:
		return joined(" ", c.Method, c.Host+c.Path)
	}
}

func entryCall(e schemas.ActionEntry) string {
	return callText(e.Kind, e.Called, joined("", e.Model, e.Agent))
}

func viewCall(v schemas.ActionView) string {
	var result struct {
		Dialect string `json:"dialect"`
		Model   string `json:"model"`
	}
	if v.Kind == schemas.KindChat {
		_ = json.Unmarshal(v.Result, &result) // a completion that has not ended has no result
	}
	return callText(v.Kind, v.Called, joined(" ", result.Dialect, result.Model, v.Agent))
}

// evidenceText is the payload of a record of evidence: the call, the answer and the duration.
func evidenceText(payload json.RawMessage) string {
	var p struct {
		Method      string          `json:"method"`
		Fingerprint string          `json:"request_fingerprint"`
		Target      string          `json:"target"`
		URL         string          `json:"url"`
		Model       string          `json:"model"`
		Repo        string          `json:"repo"`
		Ref         string          `json:"ref"`
		Status      json.RawMessage `json:"status"`
		Reason      string          `json:"reason"`
		DurationMS  *float64        `json:"duration_ms"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return ""
	}
	call := joined(" ", p.Method, placeOf(p.Fingerprint, p.Target, p.URL), p.Model, p.Repo, p.Ref)
	return joined("  ", call, strings.Trim(string(p.Status), `"`), took(p.DurationMS), p.Reason)
}

// placeOf is the host and the path in the first of some texts that name a URL, maybe after a method.
// A text that is sealed names none.
func placeOf(texts ...string) string {
	for _, text := range texts {
		if _, rest, ok := strings.Cut(text, "://"); ok {
			place, _, _ := strings.Cut(rest, "?")
			place, _, _ = strings.Cut(place, "#")
			return place
		}
	}
	return ""
}

// tailCells are an action as `weir tail actions` shows it.
func tailCells(e schemas.ActionEntry) []any {
	at := e.Created.Local().Format("15:04:05.000")
	state := tinted{fmt.Sprintf("%-9s", e.Status), string(e.Status)}
	return filled([]any{at, e.ID, state, cut(entryCall(e), longestCall), positive(e.HTTPStatus), e.Code, took(e.DurationMS), e.Caller})
}

// listTime is an instant in a list: without the day if that is today.
func listTime(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// took is a time in milliseconds for a person; empty: it is not known.
func took(ms *float64) string {
	if ms == nil {
		return ""
	}
	d := time.Duration(*ms * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
