package policy

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

	"weir/ingress"
	"weir/internal/fault"
	"weir/schemas"
)

// Operations is where operators' decisions are kept. They survive a crash when a method has returned.
type Operations interface {
	// Order puts an operation in force. It replaces one of the same type on the same target.
	Order(ctx context.Context, op schemas.Operation) (schemas.Operation, error)
	// Lift takes one back; fault.ErrNotFound: there is none like that.
	Lift(ctx context.Context, do string, t schemas.Target) (schemas.Operation, error)
}

// target reads a request that only the operator may send, because an operation holds back every
// tenant.
func (h handlers) target(c *gin.Context) (req schemas.OperationRequest, err error) {
	if err = fault.Operator(ingress.Caller(c).Tenant, "hold calls back"); err == nil {
		err = h.server.Decode(c, &req)
	}
	if err == nil {
		req.Target, err = aimed(req.Target)
	}
	return req, err
}

// order puts an operation in force.
func (h handlers) order(do string) ingress.Handler {
	return func(c *gin.Context) error {
		req, err := h.target(c)
		if err != nil {
			return err
		}
		op := schemas.Operation{Do: do, Target: req.Target, State: req.State, Reason: req.Reason, By: ingress.Caller(c).Name}
		if err := orderly(op); err != nil {
			return err
		}
		if all := h.policies.Entries(); op.Entry != "" && !slices.Contains(all, op.Entry) {
			return fault.New(schemas.NotFound, "the policy in force has no entry "+op.Entry+"; "+known(all))
		}
		return written(c)(h.operations.Order(c.Request.Context(), op))
	}
}

// lift takes an operation back. It may be about an entry that the policy does not have any
// more.
func (h handlers) lift(do string) ingress.Handler {
	return func(c *gin.Context) error {
		req, err := h.target(c)
		if err != nil {
			return err
		}
		if req.State != "" || req.Reason != "" {
			return fault.New(schemas.ValidationError, "state and reason are of what is put in force; leave them out")
		}
		op, err := h.operations.Lift(c.Request.Context(), do, req.Target)
		if errors.Is(err, fault.ErrNotFound) {
			err = fault.New(schemas.NotFound, "no "+do+" of that is in force; GET "+schemas.RouteOperations+" lists what is")
		}
		return written(c)(op, err)
	}
}

// written answers with an operation, unless there is an error.
func written(c *gin.Context) func(schemas.Operation, error) error {
	return func(op schemas.Operation, err error) error {
		if err == nil {
			ingress.WriteJSON(c, http.StatusOK, op)
		}
		return err
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
		return fault.New(schemas.ValidationError, "at /state: must be open, to block the calls, or closed, to allow them despite failures")
	case op.Do == schemas.OperationPin && op.Entry == "" && op.Destination == "":
		return fault.New(schemas.ValidationError, "a pin is about an entry or a destination; a pause holds a tenant's calls or a kind's back")
	case op.Do == schemas.OperationPause && op.State != "":
		return fault.New(schemas.ValidationError, "at /state: is of a pin; leave it out")
	case len(op.Reason) > schemas.MaxOperationReason || !utf8.ValidString(op.Reason) || strings.ContainsFunc(op.Reason, unicode.IsControl):
		return fault.New(schemas.ValidationError, fmt.Sprintf("at /reason: must be one line of at most %d bytes", schemas.MaxOperationReason))
	}
	return nil
}
