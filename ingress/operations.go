package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// Operations is where operators' decisions are kept.
type Operations interface {
	// Order puts one in force, in the place of one of the same sort about the same target.
	Order(ctx context.Context, op schemas.Operation) (schemas.Operation, error)
	// Lift takes one back; fault.ErrNotFound: there is none like that.
	Lift(ctx context.Context, do string, t schemas.Target) (schemas.Operation, error)
	// Entries are the names of the policy in force that an operation may be about.
	Entries() []string
}

func (in *Room) mountOperations(e *gin.Engine) {
	if in.cfg.Operations == nil {
		return
	}
	may := in.authorize(schemas.ScopeAdmin)
	for route, do := range map[string]func(ctx context.Context, by Identity, req schemas.OperationRequest) (schemas.Operation, error){
		schemas.RouteOperationsPause: in.command(schemas.OperationPause), schemas.RouteOperationsPin: in.command(schemas.OperationPin),
		schemas.RouteOperationsResume: in.takeBack(schemas.OperationPause), schemas.RouteOperationsUnpin: in.takeBack(schemas.OperationPin),
	} {
		e.POST(route, surface("policy", ""), may, func(c *gin.Context) { in.operate(c, do) })
	}
}

// operate reads what is to be done, and about what.
func (in *Room) operate(c *gin.Context, do func(ctx context.Context, by Identity, req schemas.OperationRequest) (schemas.Operation, error)) {
	who := identity(c)
	// What is held back is every tenant's.
	if err := fault.Operator(who.Tenant, "hold calls back"); err != nil {
		in.fail(c, err)
		return
	}
	body, err := in.read(c.Writer, c.Request)
	var req schemas.OperationRequest
	if err == nil {
		err = strict.Decode(body, &req)
	}
	if err == nil {
		req.Target, err = aimed(req.Target)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	op, err := do(c.Request.Context(), who, req)
	if err != nil {
		in.fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, op)
}

// command puts an operation in force.
func (in *Room) command(do string) func(ctx context.Context, by Identity, req schemas.OperationRequest) (schemas.Operation, error) {
	return func(ctx context.Context, by Identity, req schemas.OperationRequest) (schemas.Operation, error) {
		op := schemas.Operation{Do: do, Target: req.Target, State: req.State, Reason: req.Reason, By: by.Name}
		if err := orderly(op); err != nil {
			return op, err
		}
		if all := in.cfg.Operations.Entries(); op.Entry != "" && !slices.Contains(all, op.Entry) {
			return op, fault.New(schemas.NotFound, "the policy in force has no entry "+op.Entry+"; "+known(all))
		}
		return in.cfg.Operations.Order(ctx, op)
	}
}

// takeBack takes an operation back. It may be about an entry that the policy does not have any
// more.
func (in *Room) takeBack(do string) func(ctx context.Context, by Identity, req schemas.OperationRequest) (schemas.Operation, error) {
	return func(ctx context.Context, _ Identity, req schemas.OperationRequest) (schemas.Operation, error) {
		if req.State != "" || req.Reason != "" {
			return schemas.Operation{}, fault.New(schemas.ValidationError, "state and reason are of what is put in force; leave them out")
		}
		op, err := in.cfg.Operations.Lift(ctx, do, req.Target)
		if errors.Is(err, fault.ErrNotFound) {
			err = fault.New(schemas.NotFound, "no "+do+" of that is in force; GET "+schemas.RouteOperations+" lists what is")
		}
		return op, err
	}
}

// mostKnown is how many names an error lists.
const mostKnown = 20

func known(all []string) string {
	switch {
	case len(all) == 0:
		return "it has none"
	case len(all) > mostKnown:
		return fmt.Sprintf("it has %s and %d more", strings.Join(all[:mostKnown], ", "), len(all)-mostKnown)
	default:
		return "it has " + strings.Join(all, ", ")
	}
}

// aimed checks a target, and writes its destination as calls have it.
func aimed(t schemas.Target) (schemas.Target, error) {
	invalid := func(text string) error { return fault.New(schemas.ValidationError, text) }
	if t.Named() != 1 {
		return t, invalid("name one of entry, destination, tenant and kind, and no more than one")
	}
	switch {
	case t.Destination != "":
		d, ok := schemas.ParseDestination(t.Destination)
		if !ok {
			return t, invalid("at /destination: must be a URL such as https://api.example.com, with a port if it is not the usual one")
		}
		t.Destination = d
	case t.Tenant != "" && !schemas.ValidID(t.Tenant):
		return t, invalid("at /tenant: must be the name of a tenant")
	case t.Kind != "" && !slices.Contains(schemas.Kinds(), t.Kind):
		return t, invalid("at /kind: must be one of " + kindNames())
	}
	return t, nil
}

func kindNames() string {
	var names []string
	for _, k := range schemas.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// orderly checks the rest of an operation.
func orderly(op schemas.Operation) error {
	pinned := op.State == schemas.PinOpen || op.State == schemas.PinClosed
	switch {
	case op.Do == schemas.OperationPin && !pinned:
		return fault.New(schemas.ValidationError, "at /state: must be open, so that it is not called, or closed, so that it is called whatever becomes of that")
	case op.Do == schemas.OperationPin && op.Entry == "" && op.Destination == "":
		return fault.New(schemas.ValidationError, "a pin is about an entry or a destination; a pause holds a tenant's calls or a kind's back")
	case op.Do == schemas.OperationPause && op.State != "":
		return fault.New(schemas.ValidationError, "at /state: is of a pin; leave it out")
	case len(op.Reason) > schemas.MaxOperationReason || !utf8.ValidString(op.Reason) || strings.ContainsFunc(op.Reason, unicode.IsControl):
		return fault.New(schemas.ValidationError, fmt.Sprintf("at /reason: must be one line of at most %d bytes", schemas.MaxOperationReason))
	}
	return nil
}
