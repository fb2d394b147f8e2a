package ingress

import (
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/schemas"
)

// deniedWait is how long the answer to a denied action is held back for the
// worker's word, if the caller would rather not wait. Without a worker in
// reach it is 202, and the denial stands under the action.
const deniedWait = 10 * time.Second

// submit accepts an action and answers as its caller prefers. A denied one is
// stored like any other, so that it leaves evidence; its caller hears of the
// denial at once even if it asked for a 202.
func (in *Room) submit(c *gin.Context, req accept.Request, denied bool) {
	prefer := accept.Prefer(c.Request.Header.Values("Prefer"))
	wait := prefer.Hold()
	applied := prefer.Applied()
	switch later := req.NotBefore.After(in.cfg.Accept.Now()); {
	case later && !prefer.HasWait: // nobody waits for what is put off, unless he says so
		wait = 0
	case denied && wait >= 0 && !later:
		wait, applied = max(wait, deniedWait), ""
	}
	if wait != 0 {
		release := func() {}
		req.Before = func(ref schemas.Ref) {
			release() // of the action that this one follows
			release = in.responder.Expect(ref)
		}
		defer func() { release() }()
	}
	out, err := in.acceptor.Accept(c.Request.Context(), req)
	if err == nil && applied != "" {
		c.Writer.Header().Set("Preference-Applied", applied)
	}
	in.answer(c, out, err, wait)
}

// answer hands an accepted action to the responder. Beside an error, out names
// the action if there may be one.
func (in *Room) answer(c *gin.Context, out accept.Accepted, err error, wait time.Duration) {
	if in.taken(c, out, err) {
		in.responder.Respond(c.Writer, c.Request, out.Ref, out.Receipt, wait)
	}
}

// taken names the action in the answer and counts it. It answers itself where
// there is an error, and returns false.
func (in *Room) taken(c *gin.Context, out accept.Accepted, err error) bool {
	if out.ID != "" {
		joined(c, out.Ref)
	}
	if err != nil {
		if out.ID != "" {
			c.Writer.Header().Set("Location", actionURL(out.ID))
		}
		in.fail(c, err)
		return false
	}
	if !out.Receipt.Duplicate {
		in.cfg.Metrics.Accepted(out.Kind)
	}
	if out.Replayed {
		c.Writer.Header().Set("Idempotency-Replayed", "true")
	}
	return true
}
