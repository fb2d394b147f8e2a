package git

import (
	"context"
	"errors"
	"fmt"
	"io"

	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/policy/callurl"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

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
	r, err := w.cfg.Upstream.Caller.Run(ctx, t)
	if rest, waits := errors.AsType[*call.Deferral](err); waits || err == nil && !r.Again.IsZero() {
		return w.tooLong(rest, r), nil
	} else if err != nil {
		return settle.Outcome{}, err
	}
	whole, cause := w.ended()
	return w.callOutcome(ctx, r, whole, cause)
}

// tooLong is the end of a push of which nothing was sent, and nothing could be for a while: its
// body does not wait for that, since its client does not.
func (w *work) tooLong(rest *call.Deferral, r call.Result) settle.Outcome {
	switch {
	case w.spool == nil:
		return unsent()
	case rest != nil && rest.Reason != schemas.WaitRule:
		return rejected("calls to the repository's upstream are held back just now (" + rest.Reason + "); nothing was sent, push again later")
	case rest != nil:
		return rejected("the traffic rules hold the push back for longer than it can wait; nothing was sent, push again when they let it pass")
	}
	return rejected("the repository's upstream could not be reached: " + call.Describe(*r.Last) + "; nothing was sent, push again later")
}

func unsent() settle.Outcome {
	return end(schemas.GitIncomplete, "the push was interrupted before anything of it was sent; push again")
}

var errGone = errors.New("the body of the push is not here any more")

// capabilities are sent to the upstream: always a report, because the result must be known.
func capabilities(o schemas.PushOrder) []string {
	list := []string{gitwire.CapReport}
	for _, c := range o.Capabilities {
		if c == gitwire.CapSideBand || c == gitwire.CapQuiet || c == gitwire.CapAtomic || c == gitwire.CapOfsDelta {
			list = append(list, c)
		}
	}
	return append(list, "object-format=sha1", "agent="+Agent)
}

func (c Config) remoteTask(st *ledger.State, repo schemas.Repo, p PushCall) *call.Task {
	// The command stands for the body where policy and the attempt's digest are concerned: what
	// follows it is objects.
	body, _ := ledger.Encode(string(p.Command.Request())) // a text always encodes
	return &call.Task{
		State: st, Via: c.Upstream.Adapter(p),
		Call: schemas.HTTPCall{
			Method: postMethod, URL: repo.UpstreamURL + "/" + schemas.GitReceivePack, AllowlistKey: repo.AllowlistKey,
			Headers: headers(gitwire.ResultType(schemas.GitReceivePack), false), Body: body, TextBody: true,
		},
		Record: func(ctx context.Context, t ledger.Attempt) error {
			records, err := callRecord(st, t)
			if err != nil {
				return err
			}
			return c.Recorder.Store(ctx, st, records...)
		},
	}
}

// callOutcome derives the end of a push from the result of its call. whole reports that the complete pack
// was sent, as far as this worker has sent it, and cause why not.
func (w *work) callOutcome(ctx context.Context, r call.Result, whole bool, cause error) (settle.Outcome, error) {
	switch {
	case r.Canceled:
		return end(schemas.Canceled, errStopped.Error()+"; nothing was sent"), nil
	case r.Expired:
		return expired(), nil
	case r.Denied:
		return end(r.Decision.Code, "policy does not let the push to the repository's upstream pass: "+r.Decision.Reason),
			settle.Deny(ctx, w.cfg.Recorder, w.st, 0, postMethod, remoteTarget(w.repo), r.Decision)
	case r.Answered:
		return w.answered(ctx, r, whole, cause)
	}
	res := r.Last.Result
	switch {
	case r.Failed && res.Code.Denied():
		return end(res.Code, call.Describe(*r.Last)), nil
	case w.spool != nil && !whole && cause != nil:
		return w.kept(cause), nil
	case r.Last.Mocked():
		return rejected("a traffic rule answers in the upstream's place; nothing was pushed"), nil
	case r.Failed && !res.Sent && (res.Code == schemas.Interrupted || res.Code == schemas.Canceled):
		return unsent(), nil // there was no pack to send any more
	case r.Failed && !res.Sent:
		return rejected("the repository's upstream could not be reached: " + call.Describe(*r.Last)), nil
	case w.spool != nil && !whole:
		return rejected("the push to the repository's upstream broke off before the pack was whole; the branch was not updated"), nil
	default:
		return w.lost(ctx)
	}
}

func (w *work) answered(ctx context.Context, r call.Result, whole bool, cause error) (settle.Outcome, error) {
	word, status, err := readReport(ctx, w.cfg.Upstream.Answers, r.Last)
	early := w.spool != nil && !whole
	switch {
	case err != nil:
		return settle.Outcome{}, err
	case early && cause != nil:
		return w.kept(cause), nil
	case r.Last.Mocked() && status == statusOK:
		return rejected("a traffic rule answers in the upstream's place; nothing was pushed"), nil
	case r.Last.Mocked():
		return rejected(fmt.Sprintf("a traffic rule answers in the upstream's place, with status %d; nothing was pushed", status)), nil
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
	refs, err := w.cfg.Upstream.Forward.refs(ctx, callerOf(w.st, w.order.TaskID), w.repo, w.order.Ref)
	switch {
	case ctx.Err() != nil:
		return settle.Outcome{}, ctx.Err()
	case err == nil && find(refs, w.order.Ref).Oid == w.order.New:
		return w.succeeded(gitwire.UnpackOK), nil
	}
	return end(schemas.OutcomeUnknownCode, "the answer of the repository's upstream was lost; fetch, and look at the branch before the push is made again"), nil
}

// remoteTarget names the call of a push without values.
func remoteTarget(repo schemas.Repo) string {
	return callurl.Target(postMethod, repo.UpstreamURL+"/"+schemas.GitReceivePack)
}
