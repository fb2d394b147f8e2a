package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

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
	records, failed := settle.Made(st, t, v.call.Method, plans.Fingerprint(v.call.Method, v.call.URL), call.Describe(code))
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
	record, err := settle.Denial(st, 0, v.call.Method, plans.Fingerprint(v.call.Method, v.call.URL), d, 0)
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
