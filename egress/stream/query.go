package stream

import (
	"iter"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/schemas"
)

// Invalid is the error of a request parameter that cannot be read.
func Invalid(message string) error { return fault.New(schemas.InvalidRequest, message) }

// Position reads an event id as it was sent: decimal digits, at most twenty,
// that fit into 64 bits and have a successor there.
func Position(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == math.MaxUint64 || len(s) > 20 {
		return 0, false
	}
	return n, true
}

// One reads a parameter that may appear once. ok is false if it appears more often.
func One(q url.Values, name string) (value string, ok bool, err error) {
	values, ok := q[name]
	if !ok {
		return "", false, nil
	}
	if len(values) != 1 {
		return "", false, Invalid("the parameter " + name + " may be given once")
	}
	return values[0], true, nil
}

// Only refuses parameters that a route does not know: a filter with a slip in its name
// would show everything.
func Only(q url.Values, known ...string) error {
	for name := range q {
		if !slices.Contains(known, name) {
			return Invalid(unknown(name, known))
		}
	}
	return nil
}

// unknown is the error for a parameter, which it does not repeat.
func unknown(name string, known []string) string {
	switch best := nearest.Name(strings.ToLower(name), known); {
	case len(known) == 0:
		return "this route has no parameters; remove them"
	case best != "":
		return "there is no parameter of that name; did you mean " + best + "?"
	default:
		return "there is no parameter of that name; it can be " + strings.Join(known, ", ")
	}
}

// LastEventID reads the header of that name; an empty one counts as absent.
func LastEventID(r *http.Request) (after uint64, ok bool, err error) { return EventID(r, Position) }

// EventID is LastEventID for ids that parse reads.
func EventID[T any](r *http.Request, parse func(id string) (T, bool)) (after T, ok bool, err error) {
	values := r.Header.Values("Last-Event-ID")
	if len(values) == 0 || (len(values) == 1 && values[0] == "") {
		return after, false, nil
	}
	if len(values) == 1 {
		if at, ok := parse(values[0]); ok {
			return at, true, nil
		}
	}
	return after, false, Invalid("the Last-Event-ID header must be the id of an event")
}

// Params reads the parameters of a request. The first error stays, and ends the reading: what is read
// after it is zero.
type Params struct {
	url.Values

	Err error
}

// NewParams reads parameters, of which a route knows those.
func NewParams(q url.Values, known ...string) *Params { return &Params{q, Only(q, known...)} }

// Refuse refuses a parameter; what says how it must be. An earlier error stays.
func (p *Params) Refuse(name, what string) {
	if p.Err == nil {
		p.Err = Invalid("the parameter " + name + " " + what)
	}
}

// One reads a parameter that may appear once. ok is false if it is absent, or there was an error.
func (p *Params) One(name string) (value string, ok bool) {
	if p.Err == nil {
		value, ok, p.Err = One(p.Values, name)
	}
	return value, ok && p.Err == nil
}

// Bool reads a parameter that is true or false; absent, it is false.
func (p *Params) Bool(name string) bool {
	word, ok := p.One(name)
	if ok && word != "true" && word != "false" {
		p.Refuse(name, "must be true or false")
	}
	return word == "true"
}

// Limit reads how many items a page may have: 1 to 1000.
func (p *Params) Limit(def int) (n int) {
	if p.Err == nil {
		n, p.Err = Limit(p.Values, def)
	}
	return n
}

// Cursor reads the cursor of a list, which valid accepts.
func (p *Params) Cursor(valid func(cursor string) bool) string {
	cursor, ok := p.One("cursor")
	if ok && !valid(cursor) {
		p.Refuse("cursor", "must be the next of an earlier page")
	}
	return cursor
}

// after reads where to resume: the header before the parameter.
func (p *Params) after(r *http.Request) (after uint64) {
	ok := false
	if p.Err == nil {
		after, ok, p.Err = LastEventID(r)
	}
	if ok {
		return after
	}
	value, given := p.One("after")
	if after, ok = Position(value); given && !ok {
		p.Refuse("after", "must be the id of an event")
	}
	return after
}

// seconds reads a waiting time in whole seconds, up to most.
func (p *Params) seconds(name string, most time.Duration) time.Duration {
	value, ok := p.One(name)
	if !ok {
		return most
	}
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		p.Refuse(name, "must be a number of seconds")
	}
	return min(time.Duration(n)*time.Second, most)
}

// Limit reads how many items a page may have: 1 to 1000.
func Limit(q url.Values, def int) (int, error) {
	value, ok, err := One(q, "limit")
	if !ok || err != nil {
		return def, err
	}
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n < 1 || n > 1000 {
		return 0, Invalid("the parameter limit must be a number from 1 to 1000")
	}
	return int(n), nil
}

// Form is the form of an answer that a client prefers of a route that can stream.
type Form int

// The forms.
const (
	FormAny  Form = iota // it did not say
	FormSSE              // text/event-stream
	FormJSON             // a page
	FormNone             // no acceptable form
)

// Accepts reads the Accept header. A named event stream takes precedence over a page, because a
// browser's EventSource sends that.
func Accepts(r *http.Request) Form {
	if strings.TrimSpace(strings.Join(r.Header.Values("Accept"), "")) == "" {
		return FormAny
	}
	form := FormNone
	for media := range accepted(r) {
		switch media {
		case "text/event-stream":
			return FormSSE
		case "application/json", "application/*":
			form = FormJSON
		case "*/*", "text/*":
			if form == FormNone {
				form = FormAny
			}
		}
	}
	return form
}

// Names reports whether the Accept header names a media type.
func Names(r *http.Request, media string) bool {
	for named := range accepted(r) {
		if named == media {
			return true
		}
	}
	return false
}

// accepted are the media types and ranges of the Accept header, without the refused ones.
func accepted(r *http.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
			media, params, _ := mime.ParseMediaType(part)
			if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q == 0 {
				continue
			}
			if !yield(media) {
				return
			}
		}
	}
}

// CursorParam reads the cursor of a list whose pages continue after a sequence.
func CursorParam(q url.Values) (uint64, error) {
	value, ok, err := One(q, "cursor")
	if !ok || err != nil {
		return 0, err
	}
	after, ok := Position(value)
	if !ok {
		return 0, Invalid("the parameter cursor must be the next of an earlier page")
	}
	return after, nil
}

// Selection asks an index which actions there are.
type Selection struct {
	Tenant string // empty: all tenants
	Kind   schemas.Kind
	// Ended selects actions with one of these outcomes, and those that ended with POISON, whose
	// record need not state the outcome. Open selects those that have not ended. Without either,
	// all are selected.
	Ended  []schemas.Outcome
	Open   bool
	Limit  int
	Cursor string // the next of an earlier page
}

// Selected is one page of a selection, the newest first. Only the log knows whether an action
// of it is still open, or still there. Next is empty on the last page.
type Selected struct {
	Items     []SelectedRef
	Next      string
	Freshness schemas.Freshness
}

// SelectedRef names an action. Next is the cursor of a page that starts after it.
type SelectedRef struct {
	schemas.Ref

	Next string
}
