package ingress

import (
	"context"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/strict"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/task"
	"weir/schemas"
)

// ChatConfig is what completions need. All but Models have defaults.
type ChatConfig struct {
	// Models are those in force.
	Models func() *models.Set
	// Budgets says whether a window is full just now; nil: the worker finds out.
	Budgets Looker
	// MaxBody is the largest body in bytes; default 16 MiB.
	MaxBody int64
	// Limits bound the JSON of a body; default as everywhere, but for 250,000 members: long
	// conversations have many.
	Limits strict.Limits
	// MaxBodies is how many bytes of bodies of 256 KiB or more are read and stored at a
	// time; default 8 times MaxBody. A body without a length counts as one of MaxBody. Who
	// finds no room within two seconds is refused.
	MaxBodies int64
	// Draining is closed when the node goes down: a completion whose client has left is
	// then asked to stop once. nil: never.
	Draining <-chan struct{}
}

// Looker looks at budgets without holding anything; see budget.Book.
type Looker interface {
	Look(ctx context.Context, o budget.Order) ([]schemas.ChatLimit, error)
}

func (c ChatConfig) withDefaults() ChatConfig {
	if c.MaxBody <= 0 {
		c.MaxBody = 16 << 20
	}
	if c.Limits.Members == 0 {
		c.Limits.Members = 250_000
	}
	if c.MaxBodies <= 0 {
		c.MaxBodies = 8 * c.MaxBody
	}
	return c
}

func (in *Room) mountChat(e *gin.Engine) {
	if in.cfg.Chat == nil {
		return
	}
	for _, base := range schemas.ChatBases() {
		e.POST(base+schemas.RouteChat, surface("chat", dialectChat), in.chat)
	}
}

// isChat reports whether a path is one of the chat surface, for whatever method, or would
// be behind one of its routes: whoever joins a slash too many to one reads its errors.
func isChat(path string) bool {
	for _, base := range schemas.ChatBases() {
		rest, ok := strings.CutPrefix(path, base)
		if ok && (under(rest, schemas.RouteChat) || under(rest, schemas.RouteModels)) {
			return true
		}
	}
	return false
}

func under(path, route string) bool {
	rest, ok := strings.CutPrefix(path, route)
	return ok && (rest == "" || rest[0] == '/')
}

// chat stores a completion, or joins the one with its Idempotency-Key, and answers with
// its chunks or its end.
func (in *Room) chat(c *gin.Context) {
	var unload func()
	c.Request, unload = in.freight.weigh(c.Request)
	defer unload()
	a, err := in.completion(c)
	if err != nil {
		in.fail(c, err)
		return
	}
	prefer := accept.Preference{}
	if !a.order.Stream {
		prefer = accept.Prefer(c.Request.Header.Values("Prefer"))
	}
	r := c.Request
	switch {
	case a.order.Stream: // one that may hold no more streams open begins nothing that nobody reads
		var leave func()
		if r, leave, err = in.responder.Seat(r); err != nil {
			in.fail(c, err)
			return
		}
		defer leave()
	case prefer.Hold() != 0:
		release := func() {}
		a.req.Before = func(ref schemas.Ref) { release = in.responder.Expect(ref) }
		defer func() { release() }()
	}
	a.order.Body = nil // it is in the payload; one that is large need not be there twice
	out, err := in.accepted(c, a.req)
	unload() // whatever becomes of the completion, its body is on the log or refused
	if !in.taken(c, out, err) {
		return
	}
	if applied := prefer.Applied(); applied != "" {
		c.Writer.Header().Set("Preference-Applied", applied)
	}
	if !out.Receipt.Duplicate {
		a.behind = schemas.ChatPlace{Seq: out.Before} // nobody has read any of it
	}
	var left func()
	if a.cancels {
		left = in.canceler(c, out.Ref)
	}
	in.keeping(a.patron, func() {
		in.responder.Chat(c.Writer, r, out.Ref, out.Receipt, a.order.Stream, a.behind, prefer.Hold(), left)
	})
}

// accepted stores a completion. One that is still under way is joined as one that has
// ended: its answer comes to both.
func (in *Room) accepted(c *gin.Context, req accept.Request) (accept.Accepted, error) {
	if req.ID == "" && req.Refusal != nil { // a new name joins nothing
		return accept.Accepted{}, req.Refusal
	}
	out, err := in.acceptor.Accept(c.Request.Context(), req)
	if out.ID != "" {
		c.Writer.Header().Set(schemas.HeaderGeneration, out.ID)
		if isInFlight(err) {
			out.Receipt.Duplicate, err = true, nil
		}
	}
	return out, err
}

// keeping answers, and keeps the lease of a task's holder until the answer has ended.
func (in *Room) keeping(p patron, answer func()) {
	if p.task != nil && p.lease != 0 {
		defer in.cfg.Tasks.Hold(task.Grant{Tenant: p.tenant, TaskID: p.task.ID, Lease: p.lease})()
	}
	answer()
}
