// Package git executes what has to do with repositories: pushes and the making of
// repositories, as actions, and the branches of tasks. What lives on this node the real
// git does; what lives elsewhere is requested through guard.
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
	"strings"
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
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// Recorder leaves evidence.
type Recorder interface {
	Leave(ctx context.Context, st *ledger.State, records ...schemas.Evidence) error
}

// Upstream is how repositories elsewhere are reached. Nil parts: there are none.
type Upstream struct {
	Forward *Forward
	Caller  *call.Caller
	Answers call.Answers
	// Adapter returns the adapter of one push; see Forward.Push.
	Adapter func(Talk) call.Adapter
}

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
	// Answer is the most that one fetch may bring, in bytes; default 10 GiB.
	Answer int64
	Now    func() time.Time
}

// Forward reads from git servers elsewhere, by the policy and the traffic rules in
// force, with the credentials of the policy's entry. Its
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
// do not hold.
func NewForward(g *guard.Guard, c *outbound.Client, r Recorder, cfg ForwardConfig) *Forward {
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Minute)
	cfg.Answer = cmp.Or(cfg.Answer, 10<<30)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Forward{g, c, r, cfg}
}

// asker is for whom an upstream is asked.
type asker struct {
	// action is under whose name the evidence is left, and kind what it is done for.
	action    schemas.Ref
	kind      schemas.Kind
	taskID    string
	principal string
	entries   []string
	// hides says which refs are not shown; nil: all are.
	hides func(ref string) bool
}

// asking is the asker of what is done for an action.
func asking(st *ledger.State, taskID string) asker {
	return asker{action: st.Ref, kind: st.Kind, taskID: taskID, principal: st.Action.Principal, entries: st.Action.Entries}
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

// ask makes one request, has read take the answer, and leaves evidence. It returns read's error.
func (f *Forward) ask(ctx context.Context, who asker, repo schemas.Repo, q request, read func(reply) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	v := &visit{Forward: f, who: who, q: q, start: f.cfg.Now()}
	v.call = schemas.HTTPCall{Method: q.method, URL: repo.UpstreamURL + q.suffix, AllowlistKey: repo.AllowlistKey, Headers: q.headers}
	err := errReshaped
	for errors.Is(err, errReshaped) {
		err = v.once(ctx, read)
	}
	if v.untried {
		return err
	}
	return v.end(ctx, err)
}

var (
	// errReshaped: the traffic rules now make something else of the request, of which
	// nothing was sent.
	errReshaped = errors.New("the traffic rules have changed")
	errHeld     = errors.New("traffic rules hold the request back for too long")
)

// denial is what policy says before the first byte.
type denial struct{ schemas.Decision }

func (*denial) Error() string { return "policy does not let the request pass" }

// visit is one request and what is known of it.
type visit struct {
	*Forward
	who    asker
	q      request
	call   schemas.HTTPCall
	start  time.Time
	held   time.Time // since when traffic rules hold it back
	pass   guard.Pass
	sent   bool
	status int // the answer's
	// untried: its asker gave it up while it was held back. It leaves no evidence.
	untried bool
}

// check waits until the rules let the request go, and asks for leave.
func (v *visit) check(ctx context.Context) error {
	scope := judge.Scope{
		Internal: true, Tenant: v.who.action.Tenant, Only: v.who.entries,
		Facts: traffic.Facts{Kind: v.who.kind, Principal: v.who.principal, TaskID: v.who.taskID, ActionID: v.who.action.ID},
	}
	for {
		p, d := v.guard.Check(v.call, scope)
		if !p.Valid() {
			return &denial{d}
		}
		v.pass = p
		if p.Delay() <= 0 {
			return nil
		}
		now := v.cfg.Now()
		if v.held.IsZero() {
			v.held = now
		}
		wait := v.held.Add(p.Delay()).Sub(now)
		switch {
		case wait <= 0:
			return nil
		case wait > inline:
			return &fault.Call{Code: schemas.UpstreamTimeout, Cause: errHeld}
		}
		select {
		case <-time.After(wait):
		case <-p.Replaced():
		case <-ctx.Done():
			v.untried = true
			return ctx.Err()
		}
	}
}

// once makes the request once.
func (v *visit) once(ctx context.Context, read func(reply) error) error {
	if err := v.check(ctx); err != nil {
		return err
	}
	line, err := dial.Open(ctx, v.client, v.pass)
	if err != nil {
		return err
	}
	defer line.Close()
	if v.guard.Reshaped(v.pass) {
		return errReshaped
	}
	if v.pass.Mocked() {
		m := line.Mock()
		if v.status = m.Status; m.Status != statusOK {
			return v.refused()
		}
		return read(reply{bytes.NewReader(m.Body), true})
	}
	s, err := v.send(ctx, line)
	if err != nil {
		return err
	}
	defer s.Close()
	v.sent, v.status = true, s.Status
	switch {
	case s.Status != statusOK:
		return v.refused()
	case mediaType(s.Headers) != v.q.want:
		return fault.New(schemas.UpstreamProtocol, "what answers at the repository's upstream is no git server that speaks smart HTTP; look at its URL")
	}
	return heard(s, func(r io.Reader) error { return read(reply{Reader: r}) })
}

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
	go func() {
		<-line.Begun() // at the latest when the line is closed
		leave()
	}()
	s, _, err := v.stream(ctx, line, outbound.Request{Body: v.q.body, ContentType: v.q.contentType}, v.cfg.Answer)
	return s, err
}

// stream sends a request over a line, with what the policy's entry adds. The secrets in that are read as late
// as can be.
func (f *Forward) stream(ctx context.Context, line *dial.Line, q outbound.Request, most int64) (*outbound.Stream, added.Additions, error) {
	own, err := added.Read(ctx, f.cfg.Secrets, line.Pass)
	if err != nil {
		return nil, own, err
	}
	q.Headers, q.Injected, q.Query = line.Pass.Call().Headers, own.Headers, own.Query
	s, err := line.Conn.Stream(ctx, q, outbound.StreamLimits{Header: -1, Idle: idle, Bytes: most})
	return s, own, err
}

// end leaves the evidence of a request, and returns how it ended. If the
// evidence cannot be left, the error says that too.
func (v *visit) end(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	// Of the action under whose name the evidence is left, only its name and its asker are known here.
	st := &ledger.State{Ref: v.who.action, Action: schemas.Action{Tenant: v.who.action.Tenant, Principal: v.who.principal}}
	target := callurl.Target(v.call.Method, v.call.URL)
	// A request that is made again is another one.
	name := v.who.action.ID + ".fetch." + uuid.NewString()
	var records []schemas.Evidence
	var failed error
	if denied, ok := errors.AsType[*denial](err); ok {
		var record schemas.Evidence
		record, failed = settle.Denial(st, 0, v.call.Method, target, denied.Decision, 0)
		records, err = append(records, record), denies(denied.Decision)
	} else {
		t := v.try(err)
		records, failed = settle.Made(st, t, v.call.Method, target, call.Describe(t.Result.Code))
		err = public(err)
	}
	for i := range records {
		if records[i].ID = name; records[i].Kind == schemas.EvidenceDecision {
			records[i].ID += ".denial"
		}
	}
	if failed == nil {
		failed = v.recorder.Leave(ctx, st, records...)
	}
	if failed == nil {
		return err
	}
	return errors.Join(err, failed)
}

// try is the request as an attempt.
func (v *visit) try(err error) ledger.Try {
	var code schemas.Code
	sent := v.sent
	if failed, ok := errors.AsType[*fault.Call](err); ok {
		code, sent = failed.Code, sent || failed.Sent
	} else if told, ok := errors.AsType[*fault.Error](err); ok && told.Code != schemas.HTTPFailure {
		code = told.Code // an answer of any status is one
	}
	digest := sha256.Sum256(append([]byte(v.call.Method+"\x00"+v.call.URL+"\x00"), v.q.body...)) // names it without its content
	return ledger.Try{
		Attempt: schemas.Attempt{
			Number: 1, Class: schemas.ClassSafe, Worker: v.cfg.Worker, Decision: v.pass.Decision(), Digest: hex.EncodeToString(digest[:]),
		},
		Result: &schemas.Attempted{Code: code, Sent: sent && !v.pass.Mocked(), Status: v.status, Duration: v.cfg.Now().Sub(v.start)},
	}
}

// public is an error as its asker may see it.
func public(err error) error {
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

// denies is a denial as its asker may see it.
func denies(d schemas.Decision) error {
	return fault.New(d.Code, "policy does not let the repository's upstream be asked: "+d.Reason)
}

// refused is the end of a request that was answered with another status than it should.
func (v *visit) refused() error {
	why := fmt.Sprintf("answers with status %d; try again later", v.status)
	switch {
	case v.status >= 300 && v.status < 400:
		why = "answers with a redirect, which is not followed; name the URL that it leads to as the repository's own"
	case v.status == 401, v.status == 403:
		why = fmt.Sprintf("answers with status %d; look at the credential that the policy's entry adds", v.status)
	case v.status == 404, v.status == 410:
		why = fmt.Sprintf("answers with status %d; it has no such repository, or shows it to others only", v.status)
	}
	return fault.New(schemas.HTTPFailure, "the repository's upstream "+why)
}

// mediaType is what an answer says that it is, without parameters.
func mediaType(headers []schemas.Header) string {
	for _, h := range headers {
		if h.Name == "content-type" {
			t, _, _ := strings.Cut(h.Value, ";")
			return strings.ToLower(strings.TrimSpace(t))
		}
	}
	return ""
}

// heard has read take an answer. If the call failed, that is its error: read may have taken
// the failure for an early end.
func heard(answer io.Reader, read func(io.Reader) error) error {
	l := &answerReader{Reader: answer}
	err := read(l)
	if err != nil && l.failed != nil {
		return l.failed
	}
	return err
}

type answerReader struct {
	io.Reader
	failed *fault.Call
}

func (l *answerReader) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if failed, ok := errors.AsType[*fault.Call](err); ok {
		l.failed = failed
	}
	return n, err
}
