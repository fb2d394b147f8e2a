// Package git performs what has to do with repositories: pushes and the making of
// repositories, as actions, and the branches of tasks. What lives on this node the real
// git does; what lives elsewhere is asked for through guard.
package git

import (
	"bytes"
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
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy/callurl"
	"weir/internal/policy/judge"
	"weir/internal/traffic"
	"weir/processors/call"
	"weir/processors/call/added"
	"weir/processors/call/dial"
	gitcall "weir/processors/call/git"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// Recorder leaves evidence.
type Recorder interface {
	Leave(ctx context.Context, st *ledger.State, records ...schemas.Evidence) error
}

// ForwardConfig is what Forward needs besides its collaborators. All but Secrets have
// defaults.
type ForwardConfig struct {
	// Secrets fills what the policy's entries add.
	Secrets added.Secrets
	// Worker names this process in evidence.
	Worker string
	// Timeout bounds one request with its answer, what traffic rules hold it back for
	// included; default 10 min.
	Timeout time.Duration
	// Idle is how long an upstream may say nothing while it answers; default 2 min.
	Idle time.Duration
	// Answer is the most that one fetch may bring, in bytes; default 10 GiB.
	Answer int64
	// Inline is the longest that traffic rules may hold a request back: longer ones are
	// refused, for a client waits. Default 30 s.
	Inline time.Duration
	Now    func() time.Time
}

func (c ForwardConfig) withDefaults() ForwardConfig {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	c.Idle = cmp.Or(c.Idle, 2*time.Minute)
	c.Answer = cmp.Or(c.Answer, 10<<30)
	c.Inline = cmp.Or(c.Inline, 30*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Forward reads from git servers elsewhere, by the policy and the traffic rules in
// force, with the credentials of the policy's entry. It writes to none: see Pushes. Its
// requests are repeatable, so they are on no log; each leaves evidence, that of one
// which was refused included. Its errors are *fault.Error with a sentence for a
// person, or the log's and ctx's. It is safe for concurrent use.
type Forward struct {
	guard    *guard.Guard
	client   *outbound.Client
	recorder Recorder
	cfg      ForwardConfig
}

// NewForward returns a Forward. The client's own limits on the time of headers and bodies
// do not hold; Timeout and Idle do.
func NewForward(g *guard.Guard, c *outbound.Client, r Recorder, cfg ForwardConfig) *Forward {
	return &Forward{guard: g, client: c, recorder: r, cfg: cfg.withDefaults()}
}

// asker is for whom an upstream is asked.
type asker struct {
	// action is under whose name the evidence is left, and kind what it is done for.
	action    schemas.Ref
	kind      schemas.Kind
	taskID    string
	principal string
	entries   []string
}

// asking is the asker of what is done for an action.
func asking(st *ledger.State, taskID string) asker {
	return asker{action: st.Ref, kind: st.Kind, taskID: taskID, principal: st.Action.Principal, entries: st.Action.Entries}
}

func (a asker) scope() judge.Scope {
	return judge.Scope{
		Internal: true,
		Tenant:   a.action.Tenant, Only: a.entries,
		Facts: traffic.Facts{Kind: a.kind, Principal: a.principal, TaskID: a.taskID, ActionID: a.action.ID},
	}
}

// request is one request to a repository's upstream.
type request struct {
	method, suffix string // of the repository's URL
	headers        []schemas.Header
	body           []byte
	contentType    string
	want           string // the media type of its answer
}

// reply is an answer with the status and of the type that were wanted. A mocked one is what
// a traffic rule says, whatever that is.
type reply struct {
	io.Reader
	mocked bool
}

// ask makes one request and has read take the answer, whose error it returns.
func (f *Forward) ask(ctx context.Context, who asker, repo schemas.Repo, q request, read func(reply) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	v := &visit{Forward: f, who: who, q: q, start: f.cfg.Now()}
	v.call = schemas.HTTPCall{Method: q.method, URL: repo.UpstreamURL + q.suffix, AllowlistKey: repo.AllowlistKey, Headers: q.headers}
	for {
		err := v.once(ctx, read)
		if !errors.Is(err, errReshaped) {
			return err
		}
	}
}

// errReshaped: the traffic rules now make something else of the request, of which
// nothing was sent.
var errReshaped = errors.New("the traffic rules have changed")

// visit is one request and what is known of it.
type visit struct {
	*Forward
	who   asker
	q     request
	call  schemas.HTTPCall
	start time.Time
	held  time.Time // since when traffic rules hold it back
	pass  guard.Pass
	sent  bool
	// status is the answer's.
	status int
}

// check waits until the rules let the request go, and asks for leave.
func (v *visit) check(ctx context.Context) error {
	for {
		p, d := v.guard.Check(v.call, v.who.scope())
		if !p.Valid() {
			return v.denied(ctx, d)
		}
		v.pass = p
		if p.Delay() <= 0 {
			return nil
		}
		now := v.cfg.Now()
		if v.held.IsZero() {
			v.held = now
		}
		switch wait := v.held.Add(p.Delay()).Sub(now); {
		case wait <= 0:
			return nil
		case wait > v.cfg.Inline:
			return v.ended(ctx, &fault.Call{Code: schemas.UpstreamTimeout, Cause: errHeld})
		default:
			if err := pause(ctx, wait, p.Replaced()); err != nil {
				return err
			}
		}
	}
}

var errHeld = errors.New("traffic rules hold the request back for too long")

// pause waits, unless other rules come into force.
func pause(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// once makes the request once, and leaves evidence of it.
func (v *visit) once(ctx context.Context, read func(reply) error) error {
	if err := v.check(ctx); err != nil {
		return err
	}
	line, err := dial.Open(ctx, v.client, v.pass)
	if err != nil {
		return v.ended(ctx, err)
	}
	defer line.Close()
	if v.guard.Reshaped(v.pass) {
		return errReshaped
	}
	if v.pass.Mocked() {
		m := line.Mock()
		if v.status = m.Status; m.Status != statusOK {
			return v.ended(ctx, v.refused())
		}
		return v.ended(ctx, read(reply{bytes.NewReader(m.Body), true}))
	}
	s, err := v.send(ctx, line)
	if err != nil {
		if denial, ok := errors.AsType[*denial](err); ok {
			return v.denied(ctx, denial.Decision)
		}
		return v.ended(ctx, err)
	}
	defer s.Close()
	v.sent, v.status = true, s.Status
	if err := v.fits(s); err != nil {
		return v.ended(ctx, err)
	}
	heard := &gitcall.Heard{Reader: s}
	err = read(reply{Reader: heard})
	if err != nil && heard.Failed != nil {
		err = heard.Failed
	}
	return v.ended(ctx, err)
}

const statusOK = 200

// denial is what policy says right before the first byte.
type denial struct{ schemas.Decision }

func (*denial) Error() string { return "policy does not let the request pass any more" }

// send asks policy for the last time and sends. A reload of it waits until the first
// byte is on its way.
func (v *visit) send(ctx context.Context, line *dial.Line) (*outbound.Stream, error) {
	fresh, d, leave := v.guard.Begin(v.pass)
	defer leave()
	if !fresh.Valid() {
		return nil, &denial{d}
	}
	if !fresh.SamePolicy(v.pass) {
		if err := line.Renew(fresh); err != nil {
			return nil, err
		}
		v.pass = fresh
	}
	own, err := added.Read(ctx, v.cfg.Secrets, v.pass)
	if err != nil {
		return nil, err
	}
	go func() {
		<-line.Begun() // at the latest when the line is closed
		leave()
	}()
	return line.Conn.Stream(ctx, outbound.Request{
		Headers: v.pass.Call().Headers, Injected: own.Headers, Query: own.Query, Body: v.q.body, ContentType: v.q.contentType,
	}, outbound.StreamLimits{Header: -1, Idle: v.cfg.Idle, Bytes: v.cfg.Answer})
}

// fits returns why an answer is not a git server's.
func (v *visit) fits(s *outbound.Stream) error {
	switch {
	case s.Status != statusOK:
		return v.refused()
	case gitcall.MediaType(s.Headers) != v.q.want:
		return &fault.Error{
			Code:    schemas.UpstreamProtocol,
			Message: "what answers at the repository's upstream is no git server that speaks smart HTTP; look at its URL",
		}
	}
	return nil
}

// public is an error as its asker may see it.
func (v *visit) public(err error) error {
	failed, ok := errors.AsType[*fault.Call](err)
	if !ok {
		return err
	}
	message := call.Describe(failed.Code)
	if errors.Is(failed.Cause, errHeld) {
		message = errHeld.Error()
	}
	return &fault.Error{Code: failed.Code, Message: "the repository's upstream could not be asked: " + message, Cause: err}
}

// parting is how long the evidence of a request may take whose client is gone.
const parting = 5 * time.Second

// ended leaves the evidence of a request, and gives back how it ended. Where the
// evidence cannot be left, that is how.
func (v *visit) ended(ctx context.Context, err error) error {
	var code schemas.Code
	sent := v.sent
	if failed, ok := errors.AsType[*fault.Call](err); ok {
		code, sent = failed.Code, sent || failed.Sent
	} else if told, ok := errors.AsType[*fault.Error](err); ok && told.Code != schemas.HTTPFailure {
		code = told.Code // an answer of any status is one
	}
	now := v.cfg.Now()
	t := ledger.Try{
		Attempt: schemas.Attempt{
			Number: 1, Class: schemas.ClassSafe, Worker: v.cfg.Worker, Decision: v.pass.Decision(), Digest: v.digest(),
		},
		Result: &schemas.Attempted{Code: code, Sent: sent && !v.pass.Mocked(), Status: v.status, Duration: now.Sub(v.start)},
	}
	st := v.state()
	records, failed := settle.Made(st, t, v.call.Method, callurl.Target(v.call.Method, v.call.URL), call.Describe(code))
	if failed == nil {
		failed = v.leave(ctx, st, records...)
	}
	return both(v.public(err), failed)
}

// both is the end of a request and what became of its evidence.
func both(end, evidence error) error {
	if evidence == nil {
		return end
	}
	return errors.Join(end, evidence)
}

// denied leaves the evidence of a request that policy refused.
func (v *visit) denied(ctx context.Context, d schemas.Decision) error {
	st := v.state()
	record, err := settle.Denial(st, 0, v.call.Method, callurl.Target(v.call.Method, v.call.URL), d, 0)
	if err == nil {
		err = v.leave(ctx, st, record)
	}
	return both(denies(d), err)
}

// denies is a denial as its asker may see it.
func denies(d schemas.Decision) error {
	return &fault.Error{Code: d.Code, Message: "policy does not let the repository's upstream be asked: " + d.Reason}
}

// refused is the end of a request that was answered with another status than it should.
func (v *visit) refused() error {
	var why string
	switch {
	case v.status >= 300 && v.status < 400:
		why = "answers with a redirect, which is not followed; name the URL that it leads to as the repository's own"
	case v.status == 401, v.status == 403:
		why = fmt.Sprintf("answers with status %d; look at the credential that the policy's entry adds", v.status)
	case v.status == 404, v.status == 410:
		why = fmt.Sprintf("answers with status %d; it has no such repository, or shows it to others only", v.status)
	default:
		why = fmt.Sprintf("answers with status %d; try again later", v.status)
	}
	return &fault.Error{Code: schemas.HTTPFailure, Message: "the repository's upstream " + why}
}

// state is that of the action under whose name the request's evidence is left. Only
// its name and its asker are known here.
func (v *visit) state() *ledger.State {
	return &ledger.State{Ref: v.who.action, Action: schemas.Action{Tenant: v.who.action.Tenant, Principal: v.who.principal}}
}

// leave leaves records, each under an id of its own: a request that is made again
// is another one.
func (v *visit) leave(ctx context.Context, st *ledger.State, records ...schemas.Evidence) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	name := ".fetch." + uuid.NewString()
	for i := range records {
		records[i].ID = v.who.action.ID + name
		if records[i].Kind == schemas.EvidenceDecision {
			records[i].ID += ".denial"
		}
	}
	return v.recorder.Leave(ctx, st, records...)
}

// digest names the request without telling its content.
func (v *visit) digest() string {
	h := sha256.New()
	for _, s := range []string{v.call.Method, v.call.URL} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	h.Write(v.q.body)
	return hex.EncodeToString(h.Sum(nil))
}
