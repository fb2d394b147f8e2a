package ingress

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/strict"
	"weir/internal/ledger"
	"weir/schemas"
)

// Order is an action of the surface's kind, translated from a body.
type Order struct {
	Class   schemas.Class // empty: the kind has none
	ID      string        // the caller's own, a schemas.ValidID; may be empty
	Payload any
	Kept    any  // stored in place of the payload; nil: the payload
	Denied  bool // policy has refused it already
}

// Store returns the handler that reads a body, translates it, stores the action and answers.
// The path of the route, which has no parameters, is part of an id that is derived from an
// Idempotency-Key: it must never change.
func (s *Server) Store(translate func(who Identity, body []byte) (Order, error)) Handler {
	return func(c *gin.Context) error {
		defer s.ReserveBody(c)()
		key, terms, err := accept.ReadHeaders(c.Request.Header, s.Now())
		if err != nil {
			return err
		}
		body, err := s.ReadUpTo(c, s.cfg.MaxBody, strict.Limits{})
		if err != nil {
			return err
		}
		r := stateOf(c)
		who := r.sender
		o, err := translate(who, body)
		if err != nil {
			return err
		}
		req, err := o.Request(who, r.surface.Kind, accept.NameOf(who.Tenant, who.Keys(c.FullPath()), o.ID, key), terms)
		if err != nil {
			return err
		}
		return s.Submit(c, req, nil)
	}
}

// Request is the order as a request to store an action.
func (o Order) Request(who Identity, kind schemas.Kind, name accept.Name, terms accept.Terms) (accept.Request, error) {
	payload, err := ledger.Encode(o.Payload)
	if err != nil {
		return accept.Request{}, err
	}
	kept := payload
	if o.Kept != nil {
		if kept, err = ledger.Encode(o.Kept); err != nil {
			return accept.Request{}, err
		}
	}
	return accept.Request{
		Name: name, Whole: payload, Denied: o.Denied, Until: who.Until(), Action: schemas.Action{
			Tenant: who.Tenant, Kind: kind, Class: o.Class, Payload: kept, Principal: who.ID, Entries: who.Entries, Task: who.Task(),
			NotBefore: terms.NotBefore, Priority: terms.Priority,
		},
	}, nil
}

// Submit accepts an action and answers as its caller prefers; reply is Config.Reply if it is nil.
func (s *Server) Submit(c *gin.Context, req accept.Request, reply Reply) error {
	wait, applied := s.Wait(accept.Prefer(c.Request.Header.Values("Prefer")), req.NotBefore, req.Denied)
	if wait != 0 {
		defer s.Expect(&req)()
	}
	out, err := s.acceptor.Accept(c.Request.Context(), req)
	if err == nil && applied != "" {
		c.Writer.Header().Set("Preference-Applied", applied)
	}
	if err := s.Accepted(c, out, err); err != nil {
		return err
	}
	if reply == nil {
		reply = s.cfg.Reply
	}
	reply(c.Writer, c.Request, out.Ref, out.Receipt, wait)
	return nil
}

// deniedWait is how long the answer to a denied action is held back for the worker's
// decision if the caller prefers not to wait. If no worker answers in time it is 202, and
// the denial is the action's end.
const deniedWait = 10 * time.Second

// Wait is how long the answer waits for the end of an action, as Reply has it, and the preference
// that it applies.
func (s *Server) Wait(prefer accept.Preference, notBefore time.Time, denied bool) (wait time.Duration, applied string) {
	switch later := notBefore.After(s.Now()); {
	case later && !prefer.HasWait: // an action with a delay is waited for on request only
		return 0, prefer.Applied
	case denied && prefer.Hold >= 0 && !later:
		return max(prefer.Hold, deniedWait), ""
	default:
		return prefer.Hold, prefer.Applied
	}
}

// Expect announces that the answer will wait for the end of a request's action, before the action
// can be stored. Call release after the answer.
func (s *Server) Expect(req *accept.Request) (release func()) {
	held := func() {}
	req.Before = func(ref schemas.Ref) {
		held() // of the action that this one follows
		held = s.cfg.Expect(ref)
	}
	return func() { held() }
}

// Answer answers 202 for an accepted action. Beside an error, out names the action if there may be
// one.
func (s *Server) Answer(c *gin.Context, out accept.Accepted, err error) error {
	if err = s.Accepted(c, out, err); err == nil {
		s.cfg.Reply(c.Writer, c.Request, out.Ref, out.Receipt, 0)
	}
	return err
}

// AcceptAll stores actions together and counts them. The results are in the order of their
// requests.
func (s *Server) AcceptAll(c *gin.Context, requests []accept.Request) []accept.Result {
	results := s.acceptor.AcceptAll(c.Request.Context(), requests)
	stateOf(c).release()
	for _, out := range results {
		if out.Err == nil && !out.Receipt.Duplicate {
			s.cfg.Metrics.Accepted(out.Kind)
		}
	}
	return results
}

// Refused counts a request that was refused in a place other than the answer's status.
func (s *Server) Refused(code schemas.Code) { s.cfg.Metrics.Refused(code) }

// Accepted names the action in the answer, and counts it unless there is an error, which it
// returns.
func (s *Server) Accepted(c *gin.Context, out accept.Accepted, err error) error {
	stateOf(c).release()
	if out.ID != "" {
		SetAction(c, out.Ref)
	}
	if err != nil {
		if out.ID != "" {
			c.Writer.Header().Set("Location", "/v1/actions/"+url.PathEscape(out.ID))
		}
		return err
	}
	if !out.Receipt.Duplicate {
		s.cfg.Metrics.Accepted(out.Kind)
	}
	if out.Replayed {
		c.Writer.Header().Set("Idempotency-Replayed", "true")
	}
	return nil
}

// NoDeadlineToRead lifts the deadline of a request's body, which would end a long wait for the
// answer.
func NoDeadlineToRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}
