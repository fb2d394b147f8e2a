package runs

import (
	stdjson "encoding/json"
	"errors"

	"github.com/go-json-experiment/json"

	"weir/ingress/executor"
	"weir/internal/fault"
	"weir/schemas"
)

// Error is a refusal with something to tell beside its sentence.
type Error struct {
	// Public is the sentence and the code.
	Public *fault.Error
	// Details is an object.
	Details stdjson.RawMessage
}

func (e *Error) Error() string { return e.Public.Error() }

// Unwrap gives what is public.
func (e *Error) Unwrap() error { return e.Public }

// inside words what is wrong with inputs as a fault of the run that they are
// part of. The executor's variant and code go into the details.
func inside(err error) error {
	if own, ok := errors.AsType[*executor.Error](err); ok {
		details, _ := json.Marshal(struct {
			Variant string       `json:"variant"`
			Code    schemas.Code `json:"code"`
		}{own.Variant, own.Code}) // two words: cannot fail
		return &Error{
			Public:  &fault.Error{Code: schemas.ValidationError, Message: "in inputs: " + own.Message, Cause: err},
			Details: details,
		}
	}
	if public, ok := errors.AsType[*fault.Error](err); ok {
		return &fault.Error{Code: schemas.ValidationError, Message: "in inputs: " + public.Message, Cause: err}
	}
	return err
}
