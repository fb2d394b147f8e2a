package call

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/policy/reconcile"
	"weir/internal/retry"
	"weir/processors/guard"
	"weir/schemas"
)

// probing makes a Task the probe of an attempt: a request that shows whether a call whose answer
// was lost has been applied.
type probing struct {
	attempt int // the number of the newest attempt of the step
	probe   *reconcile.Probe
	request reconcile.Request
	within  time.Duration
	// until is when the target shows every effect that the call will ever have. Before, an answer
	// that shows none proves nothing: the call may still be on its way.
	until time.Time
}

// tries are the attempts of the task's step or, of a probe, the earlier ones of the same attempt.
func (t *Task) tries() []ledger.Attempt {
	of := 0
	if t.probe != nil {
		of = t.probe.attempt
	}
	return t.State.ProbesOf(t.Step, of)
}

// Run makes a task's attempts until it has a result. It does not repeat attempts on the log, so it
// may be called on an action that another worker began. If the result is unknown, and the entry has
// a probe, it probes: an effect that shows is the result, and a call without effect is made again.
// The error is the log's or ctx's, or gives the time of the next try; with a *Deferral, the result has
// the attempts so far.
func (c *Caller) Run(ctx context.Context, t *Task) (Result, error) {
	for {
		r, err := c.run(ctx, t)
		if err != nil || !r.Unknown {
			return r, err
		}
		probes := t.State.ProbesOf(t.Step, r.Last.Number)
		if n := len(probes); n > 0 && probes[n-1].Result.RetryAt.IsZero() {
			last := &probes[n-1]
			if last.Result.Effect == schemas.EffectNotApplied {
				continue
			}
			if last.Result.Effect == schemas.EffectApplied {
				r = Result{Answered: true, Reconciled: true, Last: last, Tries: r.Tries}
			}
			return r, nil
		}
		if _, over := Over(t.State, t.Stop, c.cfg.Now()); over {
			return r, nil
		}
		probe, why, err := c.probe(ctx, t, r) // of the entry in force, which may have another, or none
		if probe == nil || err != nil {
			r.Unprobed = why
			return r, err
		}
		if _, err := c.run(ctx, probe); err != nil && !errors.Is(err, errStale) {
			return r, err
		}
	}
}

// probe is the task of probing after a lost answer; nil: the entry has no probe for it, or why is the
// reason why it cannot be made. The entry in force must be the one by which the call was made, and traffic rules must leave the call as it
// was sent: otherwise the probe would look for another effect.
func (c *Caller) probe(ctx context.Context, t *Task, r Result) (probe *Task, why string, err error) {
	sent := inDoubt(r.Tries)
	if t.Keyless || sent == nil || c.guard.Contract(sent.LastWord().Entry).Reconcile == nil {
		return nil, "", nil // of Keyless, the dialect itself shows what became of the call
	}
	p, _ := c.ask(t, nil)
	if !p.Valid() || p.Mocked() || p.Permit().Probe() == nil || sent.LastWord().Entry != p.Permit().Entry() || sent.Digest != digest(p) {
		return nil, "the policy or the traffic rules in force are not those of the call", nil
	}
	compiled := p.Permit().Probe()
	// The attempt's result must be on the log before anything follows from it.
	if err := t.State.Flush(ctx); err != nil {
		return nil, "", err
	}
	request := requestOf(t, p)
	url, err := compiled.URL(request)
	if err != nil {
		if why = err.Error(); request.Body == nil {
			why += ", and no body of the call can be read: only JSON of at most 256 KiB can"
		}
		return nil, why, nil
	}
	lost, within := t.written(r.Last), p.Permit().Contract().Reconcile.Within
	return &Task{
		State: t.State, Step: t.Step, KeyRequired: t.KeyRequired, RetryStatus: true, Stop: t.Stop, TaskID: t.TaskID, Record: t.Record,
		Call:  schemas.HTTPCall{Method: compiled.Method(), URL: url, AllowlistKey: p.Permit().Entry()},
		probe: &probing{attempt: r.Last.Number, probe: compiled, request: request, within: within, until: lost.Add(within)},
	}, "", nil
}

// requestOf is what expressions see of a call.
func requestOf(t *Task, p guard.Pass) reconcile.Request {
	call := p.Call()
	id, _ := schemas.Generation(t.State.ID)
	request := reconcile.Request{Method: call.Method, URL: call.URL, IdempotencyKey: call.IdempotencyKey, ActionID: id}
	request.Headers = slices.DeleteFunc(slices.Clone(call.Headers), func(h schemas.Header) bool { return policy.OwnCredential(h.Name) })
	request.Body = call.Body
	if call.TextBody || call.Base64Body {
		request.Body = jsonOf(call)
	}
	return request
}

// jsonOf is the JSON in a body that is sent as text or bytes; nil: there is none. Of a member that stands
// twice, the target may read the other one.
func jsonOf(call *schemas.HTTPCall) []byte {
	fields := schemas.HeadersByName(call.Headers)
	media, _, _ := mime.ParseMediaType(cmp.Or(fields["content-type"], call.ContentType))
	body, err := call.Sent()
	if coding := fields["content-encoding"]; err == nil && coding != "" {
		body, err = unzipped(coding, body)
	}
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") || !jsontext.Value(body).IsValid() {
		return nil
	}
	return body
}

// unzipped is a body without its coding, as far as a plain one would be seen.
func unzipped(coding string, body []byte) ([]byte, error) {
	if coding = strings.ToLower(coding); coding != "gzip" && coding != "x-gzip" {
		return nil, errors.ErrUnsupported
	}
	in, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(in, schemas.InlineLimit+1))
	if len(out) > schemas.InlineLimit {
		err = errors.ErrUnsupported
	}
	return out, err
}

// genuine reports whether an answer by a pass is the target's own: the probe proves nothing if
// traffic rules answer it or send it elsewhere.
func genuine(p guard.Pass) bool {
	d := p.Decision().Traffic
	return !p.Mocked() && (d == nil || d.Redirected == "")
}

// show evaluates the answer to a probe, before anything is removed from it. A redirect that is
// followed shows nothing by itself.
func (t *Task) show(res *schemas.Attempted, e *started, a schemas.Answer) {
	if !genuine(e.pass) || policy.IsRedirect(a.Status) && e.attempt.Hop < e.pass.Redirects() {
		return
	}
	res.Effect = t.probe.probe.Effect(t.probe.request, a)
	if res.Effect == schemas.EffectNotApplied && e.start.Before(t.probe.until) {
		res.Effect = ""
	}
}

// shares divides the time of a probe: the longest wait between two is one share.
const shares = 8

// nextProbe is when another probe follows; zero if none does. Probes are repeated with growing
// waits until one shows the effect, or until one that began after the time has answered. If that
// one gets no answer, it is repeated as often as a call is.
func (c *Caller) nextProbe(
	t *Task, a *schemas.Attempt, res *schemas.Attempted, failed *fault.Call, began time.Time, k policy.Contract, wish time.Duration,
) time.Time {
	s, rnd, now := c.schedule(t, k), c.cfg.Rand(), c.cfg.Now()
	until := t.probe.until
	var at time.Time
	switch {
	case res.Effect != "":
		return at
	case began.Before(until):
		s.Cap = max(s.Cap, t.probe.within/shares)
		at = earlier(now.Add(s.Delay(a.Number, rnd, wish)), until)
	default:
		late := 0
		for _, earlier := range t.tries() {
			if earlier.Result != nil && !earlier.Result.RetryAt.Before(until) {
				late++
			}
		}
		if late >= s.Attempts || !retry.Retryable(a.Class, res.Status, nil, failed) {
			return at
		}
		at = now.Add(s.Delay(max(late, 1), rnd, wish))
	}
	if d := t.State.Action.Deadline; !d.IsZero() && !at.Before(d) {
		return time.Time{}
	}
	return at.UTC()
}
