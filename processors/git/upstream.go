// Package git executes what has to do with repositories: pushes and the making of
// repositories, as actions, and the branches of tasks. What lives on this node the real
// git does; what lives elsewhere is requested through guard.
package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy/callurl"
	"weir/internal/traceparent"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

const (
	getMethod  = "GET"
	postMethod = "POST"

	statusOK = 200

	// Agent is how Weir calls itself to git servers. Some serve no client whose name does
	// not begin with git's.
	Agent = "git/weir"

	// idle is how long an upstream may say nothing while it answers.
	idle = 2 * time.Minute
	// inline is the longest that traffic rules may hold a request back: longer ones are
	// refused, for a client waits.
	inline = 30 * time.Second
	// parting is how long the evidence of a request may take whose client is gone.
	parting = 5 * time.Second
)

// ForwardConfig is what Forward needs besides its collaborators.
type ForwardConfig struct {
	// Secrets fills what the policy's entries add.
	Secrets dial.Secrets
	// Worker names this process in evidence.
	Worker string
	// Timeout bounds one request with its answer, what traffic rules hold it back for
	// included.
	Timeout time.Duration
	// Answer is the most that one fetch may bring, in bytes.
	Answer int64
	Now    func() time.Time
}

// Forward reads from git servers elsewhere, by the policy and the traffic rules in
// force, with the credentials of the policy's entry. Its
// requests are repeatable, so they are on no log; each leaves evidence, that of one
// which was refused included. Its errors are *fault.Error with a sentence for a
// person, or the log's and ctx's. It is safe for concurrent use.
type Forward struct {
	reads    *call.Caller // on no log
	client   *outbound.Client
	recorder *settle.Recorder
	cfg      ForwardConfig
}

// NewForward returns a Forward. The client's own limits on the time of headers and bodies
// do not hold.
func NewForward(g *guard.Guard, c *outbound.Client, r *settle.Recorder, cfg ForwardConfig) *Forward {
	reads := call.New(call.Unlogged{}, g, nil, call.Config{
		Worker: cfg.Worker, Hold: inline, Now: cfg.Now, Barrier: func(context.Context) error { return nil },
	})
	return &Forward{reads, c, r, cfg}
}

// asking is the action of a read from an upstream: it owns the evidence, for its caller and a task.
func asking(st *ledger.State, taskID string) schemas.Action {
	a := st.Action
	a.Task = taskID
	return a
}

// readAnswer takes an answer with the status and of the type that were wanted. A mocked one is what
// a traffic rule says, whatever that is.
type readAnswer func(r io.Reader, mocked bool) error

// reading is one read from an upstream: a call of one attempt on no log. It is repeatable, whatever
// its method, and leaves evidence under a name of its own: a read that is made again is another one.
type reading struct {
	*Forward
	st   *ledger.State
	call schemas.HTTPCall
	body []byte
	want string // the media type of the answer
	read readAnswer
	err  error // of read, and of an answer that is not read
}

// ask makes one request with a body, calls read with an answer of the media type want, and leaves evidence,
// also if ctx ends meanwhile. It returns the error of read.
func (f *Forward) ask(ctx context.Context, who schemas.Action, q schemas.HTTPCall, body []byte, want string, read readAnswer) error {
	of := schemas.Ref{Tenant: who.Tenant, Kind: who.Kind, ID: who.ID}
	v := &reading{Forward: f, call: q, body: body, want: want, read: read, st: &ledger.State{Ref: of, Action: schemas.Action{
		Tenant: who.Tenant, Task: who.Task, Principal: who.Principal, Entries: who.Entries, TraceParent: traceparent.From(ctx),
		Deadline: f.cfg.Now().Add(f.cfg.Timeout),
	}}}
	steady := context.WithoutCancel(ctx)
	r, err := f.reads.Run(steady, &call.Task{
		State: v.st, Call: q, Internal: true, Keyless: true, Via: f.adapter(f.cfg.Answer, v.request, v.take), Attempts: 1, Timeout: f.cfg.Timeout,
		Stop: call.Stop{Context: ctx}, Abort: true, Record: v.record,
	})
	held, waits := errors.AsType[*call.Deferral](err)
	switch {
	case waits:
		v.err = &fault.Error{Code: schemas.UpstreamTimeout, Message: "the repository's upstream could not be reached: traffic rules hold the request back for too long"}
		err = v.record(steady, ledger.Attempt{
			Attempt: schemas.Attempt{Number: 1, Worker: f.cfg.Worker, Decision: held.Decision, Method: q.Method, URL: q.URL}, Result: &schemas.Attempted{Code: schemas.UpstreamTimeout},
		})
	case err != nil:
	case r.Denied:
		var denial schemas.Evidence
		denial, err = settle.Denial(v.st, 0, q.Method, v.target(), r.Decision, 0)
		v.err, err = denies(r.Decision), v.leave(steady, err, denial)
	case r.Last == nil: // its client has gone, or its time was over, while it was held back
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	default:
		v.err = v.public(*r.Last)
	}
	if err == nil {
		return v.err
	}
	return errors.Join(v.err, err)
}

func (v *reading) request(_ context.Context, _ guard.Pass, q *outbound.Request) error {
	if q.Body = v.body; v.body != nil {
		q.ContentType = gitwire.RequestType(schemas.GitUploadPack)
	}
	return nil
}

// take reads an answer. One of any status is an answer.
func (v *reading) take(_ context.Context, a *dial.Answer) (*call.Reply, error) {
	mocked := a.Pass.Mocked()
	switch {
	case a.Status != statusOK:
		v.err = unexpected(a.Status, a.RetryAfter)
	case !mocked && mediaType(a.Headers) != v.want:
		v.err = fault.New(schemas.UpstreamProtocol, "what answers at the repository's upstream is no git server that speaks smart HTTP; look at its URL")
	default:
		v.err = v.read(a, mocked)
	}
	if _, failed := errors.AsType[*fault.Call](v.err); failed {
		return nil, v.err
	}
	if said, ok := errors.AsType[*fault.Error](v.err); ok && said.Code != schemas.HTTPFailure {
		return nil, a.Failure(said.Code, v.err)
	}
	return &call.Reply{Answer: schemas.Answer{Status: a.Status}}, nil
}

func (v *reading) target() string { return callurl.Target(v.call.Method, v.call.URL) }

// record leaves the evidence of the attempt. The digest names the request without its content.
func (v *reading) record(ctx context.Context, t ledger.Attempt) error {
	digest := sha256.Sum256(append([]byte(v.call.Method+"\x00"+v.call.URL+"\x00"), v.body...))
	t.Class, t.Digest = schemas.ClassSafe, hex.EncodeToString(digest[:])
	records, err := settle.Made(v.st, t)
	return v.leave(ctx, err, records...)
}

func (v *reading) leave(ctx context.Context, err error, records ...schemas.Evidence) error {
	if err != nil {
		return err
	}
	name := v.st.ID + ".fetch." + uuid.NewString()
	for i := range records {
		if records[i].ID = name; records[i].Kind == schemas.EvidenceDecision {
			records[i].ID += ".denial"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	return v.recorder.Store(ctx, v.st, records...)
}

// public is the error of a read for its client; nil: there was an answer, and it was read.
func (v *reading) public(t ledger.Attempt) error {
	if _, failed := errors.AsType[*fault.Call](v.err); v.err != nil && !failed || t.Result.Code == "" {
		return v.err
	}
	if d := t.LastWord(); !d.Allowed {
		return denies(d)
	}
	return &fault.Error{Code: t.Result.Code, Message: "the repository's upstream could not be reached: " + call.Describe(t), Cause: v.err}
}

func denies(d schemas.Decision) error {
	return fault.New(d.Code, "policy does not permit the call to the repository's upstream: "+d.Reason)
}

// busyError is why a status does not last, with the upstream's Retry-After; 0: it has none.
type busyError time.Duration

func (busyError) Error() string { return "the upstream is busy" }

// busy reports whether a status may be another one soon.
func busy(status int) bool { return status == 429 || status >= 500 }

// unexpected is the error of a read that was answered with another status than 200.
func unexpected(status int, wish time.Duration) error {
	why := fmt.Sprintf("answers with status %d; try again later", status)
	switch {
	case status >= 300 && status < 400:
		why = "answers with a redirect, which is not followed; name the URL that it leads to as the repository's own"
	case status == 401, status == 403:
		why = fmt.Sprintf("answers with status %d; look at the credential that the policy's entry adds", status)
	case status == 404, status == 410:
		why = fmt.Sprintf("answers with status %d; it has no such repository, or shows it to others only", status)
	}
	err := &fault.Error{Code: schemas.HTTPFailure, Message: "the repository's upstream " + why}
	if busy(status) {
		err.Cause = busyError(wish)
	}
	return err
}
