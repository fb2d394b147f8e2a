// Package fault holds the errors shared by all packages: a public code and sentence, the private
// cause, and what should happen next.
package fault

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"weir/schemas"
)

// Sentinels of the log. Callers compare with errors.Is.
var (
	// ErrFenced: another writer changed the action since it was read.
	ErrFenced = errors.New("another writer was first")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("not found")
	// ErrGone: the record existed and its history has been dropped.
	ErrGone = errors.New("history is gone")
	// ErrFull: the log refuses new records. Nothing was stored.
	ErrFull = errors.New("the log is full")
	// ErrUnavailable: the log cannot be reached, or did not answer in time.
	// Whether a record was stored is unknown.
	ErrUnavailable = errors.New("the log is unavailable")
	// ErrTooLarge: the record is over the broker's limit. Nothing was stored.
	ErrTooLarge = errors.New("the record is too large")
	// ErrConflict: the id belongs to an action with another payload.
	ErrConflict = errors.New("the id belongs to another action")
)

// Error has a public code, a public sentence and a private cause. Only the
// code and the sentence may be shown; the cause is for tests and errors.Is.
type Error struct {
	Code    schemas.Code
	Message string // tells the caller what was wrong and what to do
	// RetryAfter is when the caller may send the request again; 0: the error says nothing of it.
	RetryAfter time.Duration
	Cause      error
}

// New returns an Error without a private cause.
func New(code schemas.Code, message string) *Error { return &Error{Code: code, Message: message} }

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap gives the private cause.
func (e *Error) Unwrap() error { return e.Cause }

// Call is a call that brought no complete answer.
type Call struct {
	Code schemas.Code
	// Sent is false only where provably no byte of the request left.
	Sent bool
	// Status is the status line's, where one came before the failure.
	Status int
	// NoMemory: Weir had no memory for the answer in time. That says nothing of the target.
	NoMemory bool
	Cause    error
}

func (c *Call) Error() string { return string(c.Code) }

// Unwrap gives the private cause, which may name addresses: never show it.
func (c *Call) Unwrap() error { return c.Cause }

// RetryAfter requests that the work is delivered again after a delay; 0 is a second.
type RetryAfter struct {
	After time.Duration
	Cause error
}

func (l *RetryAfter) Error() string {
	if l.Cause == nil {
		return "later"
	}
	return "later: " + l.Cause.Error()
}

// Unwrap gives the cause.
func (l *RetryAfter) Unwrap() error { return l.Cause }

// Terminal is the failure of work that no retry can help.
type Terminal struct {
	Code   schemas.Code
	Reason string // without content
	Cause  error
}

func (p *Terminal) Error() string { return string(p.Code) + ": " + p.Reason }

// Unwrap gives the cause.
func (p *Terminal) Unwrap() error { return p.Cause }

// defaultDelay is the pause after an error that names none: a
// negative acknowledgement without a delay is redelivered in a hot loop.
const defaultDelay = time.Second

// Disposition says what an error that a handler returned means for its message:
// acknowledged, or delivered again after a delay. An error that says nothing of
// itself loses nothing.
func Disposition(err error) (ack bool, again time.Duration) {
	if err == nil {
		return true, 0
	}
	if later, ok := errors.AsType[*RetryAfter](err); ok {
		return false, cmp.Or(later.After, defaultDelay)
	}
	return false, defaultDelay
}

// Scope is nil if one of the scopes is granted, otherwise FORBIDDEN.
func Scope(granted []string, scopes ...string) error {
	for _, s := range scopes {
		if schemas.Grants(granted, s) {
			return nil
		}
	}
	return New(schemas.Forbidden, "the token lacks the scope "+strings.Join(scopes, " or "))
}

// Operator is nil for an admin of the operator's tenant, and FORBIDDEN for one
// of any other. What completes "only an admin of the operator's tenant may".
func Operator(tenant, what string) error {
	if tenant == schemas.Operator {
		return nil
	}
	return New(schemas.Forbidden, "only an admin of the tenant "+schemas.Operator+" may "+what)
}
