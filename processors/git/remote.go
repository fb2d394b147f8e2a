package git

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// mostAnswer is the size limit of a git server's answer to a push, progress included, in bytes.
const mostAnswer = 8 << 20

// whole is the size up to which a pack is sent with its length, for servers that do not accept
// chunks. A larger one is streamed.
const whole = 1 << 20

// adapter returns the adapter of one request to an upstream, whose answer has up to most bytes. An
// error of prepare means that nothing is sent, and that the call is not retried.
func (f *Forward) adapter(
	most int64, prepare func(context.Context, guard.Pass, *outbound.Request) error, read func(context.Context, *dial.Answer) (*call.Reply, error),
) call.Adapter {
	return &dial.Adapter{
		Client: f.client, Secrets: f.cfg.Secrets, Fresh: true, Prepare: prepare, Read: read,
		Limits: outbound.StreamLimits{Header: -1, Idle: idle, Bytes: most},
	}
}

// PushCall is the request of one push.
type PushCall struct {
	Command gitwire.Command
	// Capabilities are those that are sent with it.
	Capabilities []string
	// Pack returns the pack and its size. It is called once the connection is open, and again if
	// another attempt is made. Its error means that there is no pack: then nothing is sent, and the
	// push is not retried. A small pack is read completely before the first byte is sent.
	Pack func() (pack io.Reader, size int64, err error)
	// Progress takes the server's progress messages; nil: they are dropped.
	Progress func([]byte)
}

// pushReport is the server's report of a push: the body of the stored answer.
type pushReport struct {
	// Unpack is the result of unpacking, and Reason why the ref was not updated; both as in
	// gitwire.Report.
	Unpack string `json:"unpack,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Updated: the ref was updated.
	Updated bool `json:"updated"`
	// Refused is the error sent instead of a report. The ref itself then shows the result.
	Refused *string `json:"refused,omitempty"`
}

// Push returns an adapter for one push. It keeps the status of the response and, on success, the
// result in the report.
func (f *Forward) Push(t PushCall) call.Adapter {
	return f.adapter(mostAnswer, t.request, t.read)
}

var errNoGit = errors.New("the answer does not come from a git server")

// request puts the pack behind the command, with the capabilities that are sent.
func (t PushCall) request(_ context.Context, _ guard.Pass, q *outbound.Request) error {
	q.ContentType = gitwire.RequestType(schemas.GitReceivePack)
	pack, size, err := t.Pack()
	if err == nil {
		body := io.MultiReader(bytes.NewReader(t.Command.Request(t.Capabilities...)), pack)
		if size > whole {
			q.Body, q.Stream = nil, io.NopCloser(body)
			return nil
		}
		q.Body, err = io.ReadAll(body)
	}
	if err != nil {
		return &fault.Call{Code: schemas.Canceled, Cause: err}
	}
	return nil
}

// read reads the answer of a push.
func (t PushCall) read(_ context.Context, a *dial.Answer) (*call.Reply, error) {
	answer := schemas.Answer{Status: a.Status, Headers: []schemas.Header{}, RetryAfter: a.RetryAfter}
	if a.Status != statusOK {
		return &call.Reply{Answer: answer}, nil
	}
	err := errNoGit
	if mediaType(a.Headers) == gitwire.ResultType(schemas.GitReceivePack) {
		answer.Body, err = t.report(a, a.Scrub)
	}
	if _, failed := errors.AsType[*fault.Call](err); err != nil && !failed {
		err = a.Failure(schemas.UpstreamProtocol, err)
	}
	if err != nil {
		return nil, err
	}
	answer.JSON = true
	return &call.Reply{Answer: answer}, nil
}

// report reads the server's word, and passes on what is said meanwhile.
func (t PushCall) report(r io.Reader, scrub *redact.Scrubber) (json.RawMessage, error) {
	progress := t.Progress
	if progress != nil && scrub != nil {
		progress = func(b []byte) { t.Progress(scrub.Bytes(b)) }
	}
	rep, err := gitwire.Demux(r, t.Command.Ref, slices.Contains(t.Capabilities, gitwire.CapSideBand), progress)
	if refused, said := errors.AsType[*gitwire.RemoteError](err); said {
		text := scrub.String(refused.Text)
		return ledger.Encode(pushReport{Refused: &text})
	} else if err != nil {
		return nil, err
	}
	return ledger.Encode(pushReport{Unpack: scrub.String(rep.Unpack), Reason: scrub.String(rep.Reason), Updated: rep.Reason == ""})
}

// readReport is an upstream's stored answer. It is empty unless the status is a success.
func readReport(ctx context.Context, from call.Answers, last *ledger.Attempt) (w pushReport, err error) {
	a, err := from.Answer(ctx, last)
	if err != nil || a == nil || a.Status != statusOK {
		return w, err
	}
	if err := json.Unmarshal(a.Body, &w); err != nil {
		return w, &fault.Terminal{Code: schemas.Poison, Reason: "the stored answer to a push cannot be read", Cause: err}
	}
	return w, nil
}

// mediaType is what an answer says that it is, without parameters.
func mediaType(headers []schemas.Header) string {
	t, _, _ := strings.Cut(dial.ContentType(headers), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// remote has the push made at the repository's upstream, as far as the log does not hold that
// it was.
func (w *work) remote(ctx context.Context) (settle.Outcome, error) {
	t := w.cfg.remoteTask(w.st, w.repo, PushCall{
		Command: w.command(), Capabilities: capabilities(w.order), Progress: w.progress,
		Pack: func() (io.Reader, int64, error) {
			if w.spool == nil {
				return nil, 0, errGone
			}
			return w.pack(ctx), w.size.Load(), nil
		},
	})
	t.Stop, t.TaskID, t.Timeout = w.stop, w.order.TaskID, w.cfg.Timeout
	r, err := w.cfg.Caller.Run(ctx, t)
	if rest, waits := errors.AsType[*call.Deferral](err); waits {
		return w.tooLong(rest, r), nil
	} else if err != nil {
		return settle.Outcome{}, err
	}
	return w.callOutcome(ctx, r)
}

// tooLong is the end of a push of which nothing was sent, and nothing could be for a while: its
// body does not wait for that, since its client does not.
func (w *work) tooLong(rest *call.Deferral, r call.Result) settle.Outcome {
	switch {
	case w.spool == nil:
		return unsent()
	case rest.Reason == schemas.WaitDelay:
		return rejected("the repository's upstream could not be reached: " + call.Describe(*r.Last) + "; nothing was sent, push again later")
	case rest.Reason == schemas.WaitRule:
		return rejected("the traffic rules hold the push back for longer than it can wait; nothing was sent, push again when they let it pass")
	}
	return rejected("calls to the repository's upstream are held back just now (" + rest.Reason + "); nothing was sent, push again later")
}

func unsent() settle.Outcome {
	return end(schemas.GitIncomplete, "the push was interrupted before anything of it was sent; push again")
}

var errGone = errors.New("the body of the push is not here any more")

// capabilities are sent to the upstream: always a report, because the result must be known.
func capabilities(o schemas.PushOrder) []string {
	list := slices.Clone(o.Capabilities)
	if !slices.Contains(list, gitwire.CapReport) {
		list = append(list, gitwire.CapReport)
	}
	return append(list, "object-format=sha1", "agent="+Agent)
}

func (c Config) remoteTask(st *ledger.State, repo schemas.Repo, p PushCall) *call.Task {
	// The command stands for the body where policy and the attempt's digest are concerned: what
	// follows it is objects.
	body, _ := ledger.Encode(string(p.Command.Request())) // a text always encodes
	return &call.Task{
		State: st, Via: c.Adapter(p), Keyless: true,
		Call: schemas.HTTPCall{
			Method: postMethod, URL: repo.UpstreamURL + "/" + schemas.GitReceivePack, AllowlistKey: repo.AllowlistKey,
			Headers: headers(gitwire.ResultType(schemas.GitReceivePack), false), Body: body, TextBody: true,
		},
		Record: settle.Record(c.Recorder, st, settle.Made),
	}
}

// callOutcome derives the end of a push from the result of its call.
func (w *work) callOutcome(ctx context.Context, r call.Result) (settle.Outcome, error) {
	whole, cause := w.ended()
	early := w.spool != nil && !whole // this worker has not sent all of the pack
	switch {
	case r.Canceled:
		return end(schemas.Canceled, "the push was canceled; nothing was sent"), nil
	case r.Expired:
		return expired(), nil
	case r.Denied:
		e := end(r.Decision.Code, "policy does not let the push to the repository's upstream pass: "+r.Decision.Reason)
		e.Outcome = schemas.OutcomeDenied
		return e, settle.Deny(ctx, w.cfg.Recorder, r.Task, r.Decision)
	case early && cause != nil:
		return w.kept(cause), nil
	}
	switch res := r.Last.Result; {
	case r.Last.Mocked() && r.Answered && res.Status != statusOK:
		return rejected(fmt.Sprintf("a traffic rule answers in the upstream's place, with status %d; nothing was pushed", res.Status)), nil
	case r.Last.Mocked():
		return rejected("a traffic rule answers in the upstream's place; nothing was pushed"), nil
	case r.Answered:
		return w.answered(ctx, r.Last, early)
	case r.Failed && res.Code.Denied():
		return end(res.Code, call.Describe(*r.Last)), nil
	case r.Failed && !res.Sent && (res.Code == schemas.Interrupted || res.Code == schemas.Canceled):
		return unsent(), nil // there was no pack to send any more
	case r.Failed && !res.Sent:
		return rejected("the repository's upstream could not be reached: " + call.Describe(*r.Last)), nil
	case early:
		return rejected("the push to the repository's upstream broke off before the pack was whole; the branch was not updated"), nil
	}
	return w.lost(ctx)
}

// answered derives the end of a push from the upstream's answer. early: it came before all of the pack was sent.
func (w *work) answered(ctx context.Context, last *ledger.Attempt, early bool) (settle.Outcome, error) {
	word, err := readReport(ctx, w.cfg.Answers, last)
	switch status := last.Result.Status; {
	case err != nil:
		return settle.Outcome{}, err
	case status >= 500 && !early, word.Refused != nil && !early, word.Updated && early:
		e, err := w.lost(ctx)
		if e.Outcome == schemas.OutcomeUnknown && word.Refused != nil {
			e = rejected("the repository's upstream says: " + *word.Refused)
		}
		return e, err
	case status != statusOK:
		return rejected(fmt.Sprintf("the repository's upstream answered with status %d; the branch was not updated", status)), nil
	case word.Refused != nil:
		return rejected("the repository's upstream says: " + *word.Refused), nil
	case !word.Updated:
		w.unpack = word.Unpack
		return rejected(word.Reason), nil
	}
	return w.succeeded(word.Unpack), nil
}

// lost derives from the upstream's branch the result of a push whose answer was lost.
func (w *work) lost(ctx context.Context) (settle.Outcome, error) {
	if done, err := w.knows(ctx, w.st, w.order); err != nil || done {
		return w.succeeded(gitwire.UnpackOK), err
	}
	refs, err := w.cfg.Forward.refs(ctx, asking(w.st, w.order.TaskID), w.repo, w.order.Ref)
	switch {
	case ctx.Err() != nil:
		return settle.Outcome{}, ctx.Err()
	case err == nil && find(refs, w.order.Ref).Oid == w.order.New:
		return w.succeeded(gitwire.UnpackOK), nil
	}
	return end(schemas.OutcomeUnknownCode, "the answer of the repository's upstream was lost; fetch, and look at the branch before the push is made again"), nil
}
