package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy/callurl"
	"weir/internal/policy/evaluate"
	"weir/internal/traffic"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

var (
	// errReshaped: the traffic rules now make something else of the request, of which
	// nothing was sent.
	errReshaped = errors.New("the traffic rules have changed")
	errHeld     = errors.New("traffic rules hold the request back for too long")
)

// denial is what policy says before the first byte.
type denial struct{ schemas.Decision }

func (*denial) Error() string { return "policy does not let the request pass" }

type roundTrip struct {
	*Forward
	who    caller
	call   schemas.HTTPCall
	body   []byte
	want   string // the media type of the answer
	start  time.Time
	held   time.Time // since when traffic rules hold it back
	pass   guard.Pass
	sent   bool
	status int // the answer's
	// untried: its caller gave it up while it was held back. It leaves no evidence.
	untried bool
}

// check waits until the rules let the request go, and asks for leave.
func (v *roundTrip) check(ctx context.Context) error {
	scope := evaluate.Scope{
		Internal: true, Tenant: v.who.action.Tenant, Only: v.who.entries,
		Facts: traffic.Facts{Kind: v.who.action.Kind, Principal: v.who.principal, TaskID: v.who.taskID, ActionID: v.who.action.ID},
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

func (v *roundTrip) once(ctx context.Context, read readAnswer) error {
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
		return read(bytes.NewReader(m.Body), true)
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
	case mediaType(s.Headers) != v.want:
		return fault.New(schemas.UpstreamProtocol, "what answers at the repository's upstream is no git server that speaks smart HTTP; look at its URL")
	}
	return read(s, false)
}

// send asks policy for the last time and sends. A reload of it waits until the first
// byte is on its way.
func (v *roundTrip) send(ctx context.Context, line *dial.Base) (*outbound.Stream, error) {
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
	contentType := ""
	if v.body != nil {
		contentType = gitwire.RequestType(schemas.GitUploadPack)
	}
	s, _, err := v.stream(ctx, line, outbound.Request{Body: v.body, ContentType: contentType}, v.cfg.Answer)
	return s, err
}

// end leaves the evidence of a request, and returns how it ended. If the
// evidence cannot be left, the error says that too.
func (v *roundTrip) end(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	// Of the action under whose name the evidence is left, only its name and its caller are known here.
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
		t := v.attempt(err)
		records, failed = settle.Made(st, t, v.call.Method, target, call.Describe(t))
		err = public(err, t)
	}
	for i := range records {
		if records[i].ID = name; records[i].Kind == schemas.EvidenceDecision {
			records[i].ID += ".denial"
		}
	}
	if failed == nil {
		failed = v.recorder.Store(ctx, st, records...)
	}
	if failed == nil {
		return err
	}
	return errors.Join(err, failed)
}

func (v *roundTrip) attempt(err error) ledger.Attempt {
	var code schemas.Code
	sent := v.sent
	if failed, ok := errors.AsType[*fault.Call](err); ok {
		code, sent = failed.Code, sent || failed.Sent
	} else if told, ok := errors.AsType[*fault.Error](err); ok && told.Code != schemas.HTTPFailure {
		code = told.Code // an answer of any status is one
	}
	digest := sha256.Sum256(append([]byte(v.call.Method+"\x00"+v.call.URL+"\x00"), v.body...)) // names it without its content
	return ledger.Attempt{
		Attempt: schemas.Attempt{
			Number: 1, Class: schemas.ClassSafe, Worker: v.cfg.Worker, Decision: v.pass.Decision(), Digest: hex.EncodeToString(digest[:]),
		},
		Result: &schemas.Attempted{Code: code, Sent: sent && !v.pass.Mocked(), Status: v.status, Duration: v.cfg.Now().Sub(v.start)},
	}
}

func public(err error, t ledger.Attempt) error {
	failed, ok := errors.AsType[*fault.Call](err)
	if !ok {
		return err
	}
	message := call.Describe(t)
	if errors.Is(failed.Cause, errHeld) {
		message = errHeld.Error()
	}
	return &fault.Error{Code: failed.Code, Message: "the repository's upstream could not be reached: " + message, Cause: err}
}

func denies(d schemas.Decision) error {
	return fault.New(d.Code, "policy does not permit the call to the repository's upstream: "+d.Reason)
}

// refused is the end of a request that was answered with another status than it should.
func (v *roundTrip) refused() error {
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
