package stream

import (
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

// EventID reads the header Last-Event-ID, whose ids parse reads; an empty one counts as absent.
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

// NewParams reads parameters. Those that a route does not know are refused: a filter with a slip in
// its name would show everything.
func NewParams(q url.Values, known ...string) *Params {
	for name := range q {
		if !slices.Contains(known, name) {
			return &Params{q, Invalid(unknown(name, known))}
		}
	}
	return &Params{Values: q}
}

// Refuse refuses a parameter; what says how it must be. An earlier error stays.
func (p *Params) Refuse(name, what string) {
	if p.Err == nil {
		p.Err = Invalid("the parameter " + name + " " + what)
	}
}

// One reads a parameter that may appear once. ok is false if it is absent, or there was an error.
func (p *Params) One(name string) (value string, ok bool) {
	switch values := p.Values[name]; {
	case len(values) > 1:
		p.Refuse(name, "may be given once")
	case len(values) == 1 && p.Err == nil:
		return values[0], true
	}
	return "", false
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
func (p *Params) Limit(def int) int {
	value, ok := p.One("limit")
	if !ok {
		return def
	}
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n < 1 || n > 1000 {
		p.Refuse("limit", "must be a number from 1 to 1000")
	}
	return int(n)
}

// Cursor reads the cursor of a list, which valid accepts.
func (p *Params) Cursor(valid func(cursor string) bool) string {
	cursor, ok := p.One("cursor")
	if ok && !valid(cursor) {
		p.Refuse("cursor", "must be the next of an earlier page")
	}
	return cursor
}

// LastEventID reads the header of that name; ok is false if it is absent, or there was an error.
func (p *Params) LastEventID(r *http.Request) (after uint64, ok bool) {
	if p.Err == nil {
		after, ok, p.Err = EventID(r, Position)
	}
	return after, ok
}

// After reads a parameter that is a position; what says how it must be.
func (p *Params) After(name, what string) uint64 {
	value, given := p.One(name)
	after, ok := Position(value)
	if given && !ok {
		p.Refuse(name, what)
	}
	return after
}

// tenantAll names every tenant at once.
const tenantAll = "*"

// Tenant reads whose records are requested by a sender of tenant own with these scopes. An admin of the
// operator's tenant may name another one, or all where a route permits that; empty: all.
func (p *Params) Tenant(own string, scopes []string, all bool) string {
	named, ok := p.One("tenant")
	every := all && named == tenantAll
	switch {
	case !ok || named == own:
		return own
	case every || schemas.ValidID(named):
		if p.Err = fault.Operator(own, "name another tenant"); p.Err == nil {
			p.Err = fault.Scope(scopes, schemas.ScopeAdmin)
		}
	case all:
		p.Refuse("tenant", "must be the name of a tenant, or * for all")
	default:
		p.Refuse("tenant", "must be the name of a tenant")
	}
	if every {
		return ""
	}
	return named
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

// Accepts reads the Accept header for a route that can stream: whether the client prefers server-sent
// events to a page, which are def if it does not say, and ok if it takes one of both. A named event
// stream takes precedence over a page, because a browser's EventSource sends that.
func Accepts(r *http.Request, def bool) (sse, ok bool) {
	media := accepted(r)
	has := func(one, other string) bool { return slices.Contains(media, one) || slices.Contains(media, other) }
	switch {
	case strings.TrimSpace(strings.Join(r.Header.Values("Accept"), "")) == "":
		return def, true
	case slices.Contains(media, "text/event-stream"):
		return true, true
	case has("application/json", "application/*"):
		return false, true
	default:
		return def, has("*/*", "text/*")
	}
}

// Names reports whether the Accept header names a media type.
func Names(r *http.Request, media string) bool { return slices.Contains(accepted(r), media) }

// accepted are the media types and ranges of the Accept header, without the refused ones.
func accepted(r *http.Request) (all []string) {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, params, _ := mime.ParseMediaType(part)
		if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q != 0 {
			all = append(all, media)
		}
	}
	return all
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
