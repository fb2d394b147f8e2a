package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/jsonschema"
	"weir/internal/policy/reconcile"
	"weir/internal/redact"
	"weir/schemas"
)

// Contract is the delivery contract of an entry: which failed calls are repeated, how a lost answer
// is resolved, and which answers are accepted. The zero Contract changes nothing.
type Contract struct {
	// Retry replaces the standard schedule of attempts for the entry's calls.
	Retry *Retry `json:"retry,omitempty" yaml:"retry,omitempty"`
	// NeverRetry names the answers after which a call is not repeated, whatever its class.
	NeverRetry *NeverRetry `json:"never_retry,omitempty" yaml:"never_retry,omitempty"`
	// RequiresKey denies a POST or PATCH without an idempotency key of its caller's.
	RequiresKey bool `json:"requires_key,omitempty" yaml:"requires_key,omitempty"`
	// Reconcile is a request that shows whether a POST or PATCH with a lost answer was applied.
	Reconcile *Reconcile `json:"reconcile,omitempty" yaml:"reconcile,omitempty"`
	// ResponseSchema is the schema of the entry's successful answers. Through /via and the proxy, such an
	// answer is given as a whole, after it was checked.
	ResponseSchema *ResponseSchema `json:"response_schema,omitempty" yaml:"response_schema,omitempty"`
}

// RetryOn are the statuses after which a call may be repeated; empty: the usual ones.
func (c Contract) RetryOn() []int {
	if c.Retry == nil {
		return nil
	}
	return c.Retry.On
}

// Retry is a schedule of attempts. Policy carries it; processors/call follows it.
type Retry struct {
	Attempts int           `json:"attempts" yaml:"attempts" default:"3"` // Attempts in all, the first one included: 1 to 20.
	Base     time.Duration `json:"base" yaml:"base" default:"200ms"`     // The wait after the first attempt; each further wait doubles it.
	// The longest wait, to which chance adds up to a quarter. A longer wait that the target requests
	// takes precedence.
	Cap time.Duration `json:"cap" yaml:"cap" default:"2s"`
	// Statuses, 400 to 599, after which a call is repeated if its class permits that. Default: 429
	// and 500 to 599.
	On []int `json:"on,omitempty" yaml:"on,omitempty"`
}

// NeverRetry names answers that end a call. One match is enough.
type NeverRetry struct {
	Status []int `json:"status,omitempty" yaml:"status,omitempty"` // Statuses, 400 to 599.
	// Headers of the answer and the value that each must have, such as x-should-retry: "false".
	// Letter case does not matter.
	Header map[string]string `json:"header,omitempty" yaml:"header,omitempty"`
}

// Matches reports whether an answer ends its call. The names of its headers are in lower case.
func (n *NeverRetry) Matches(status int, headers []schemas.Header) bool {
	return n != nil && (slices.Contains(n.Status, status) || slices.ContainsFunc(headers, func(h schemas.Header) bool {
		value, named := n.Header[h.Name]
		return named && strings.EqualFold(strings.TrimSpace(h.Value), value)
	}))
}

// Reconcile is a probe of the target after a lost answer.
type Reconcile struct {
	Method string `json:"method" yaml:"method" default:"GET"` // The probe's method: GET or HEAD.
	// The probe's URL, which the entry must permit. {EXPRESSION} stands for a value of the request.
	URL string `json:"url" yaml:"url"`
	// The expression over request and response that shows that the call was applied.
	Applied string `json:"applied" yaml:"applied"`
	// The expression that shows that it was not applied. Default none: then the call is never
	// repeated.
	NotApplied string `json:"not_applied,omitempty" yaml:"not_applied,omitempty"`
	// How long after a lost answer the call may still take effect at the target, or its effect may
	// still be invisible: 1s to 24h. The probe is repeated until applied holds or this time has passed.
	// Only a probe after it can show that the call was not applied.
	Within time.Duration `json:"within" yaml:"within" default:"30s"`
}

// The modes of a ResponseSchema.
const (
	SchemaStrict = "strict" // an answer that does not fit fails the call
	SchemaWarn   = "warn"   // the call succeeds, and the result lists the violations
	SchemaRedact = "redact" // members that the schema does not name are removed before the answer is stored
)

// ResponseSchema is a schema for answers with a status of 2xx, beside the caller's own.
type ResponseSchema struct {
	// A JSON Schema, or the path of a file with one, relative to the folder of this file.
	Schema json.RawMessage `json:"schema" yaml:"schema"`
	// What happens to an answer that does not fit: strict (the call fails), warn (the result lists
	// the violations) or redact (members that the schema does not name are removed; otherwise as
	// strict).
	Mode string `json:"mode" yaml:"mode" default:"strict"`
}

// The bounds of a contract.
const (
	MaxAttempts  = 20
	maxRetryWait = 24 * time.Hour
	maxWithin    = 24 * time.Hour
	maxNever     = 16 // headers of never_retry
)

// once reports whether a call with a method may not be repeated without a key.
func once(method string) bool { return method == "POST" || method == "PATCH" }

// bare reports whether a call with a method has no body, and changes nothing.
func bare(method string) bool { return method == "GET" || method == "HEAD" }

// setContract takes the contract in canonical form. The entry's other members are set.
func (e *entry) setContract(c Contract) error {
	e.Contract = c
	return errors.Join(e.setRetry(c.Retry), e.setNeverRetry(c), e.checkRequiresKey(), e.setReconcile(c.Reconcile), e.setResponseSchema(c.ResponseSchema))
}

func (e *entry) setRetry(in *Retry) error {
	if in == nil {
		return nil
	}
	r := *in
	r.On = slices.Sorted(slices.Values(in.On))
	e.Retry = &r
	switch {
	case r.Attempts < 1 || r.Attempts > MaxAttempts:
		return fmt.Errorf("retry: attempts %d is not in 1 to %d; 1 means that no call is repeated", r.Attempts, MaxAttempts)
	case r.Base < time.Millisecond || r.Base > maxRetryWait:
		return fmt.Errorf("retry: base %s is not in 1ms to 24h", r.Base)
	case r.Cap < r.Base || r.Cap > maxRetryWait:
		return fmt.Errorf("retry: cap %s is not in %s, the base, to 24h", r.Cap, r.Base)
	case in.On != nil && len(in.On) == 0:
		return errors.New("retry: on is empty; leave it out for 429 and 500 to 599, or set attempts to 1")
	}
	return checkFailures("retry: on", r.On)
}

// checkFailures checks a sorted list of statuses.
func checkFailures(key string, statuses []int) error {
	for i, status := range statuses {
		switch {
		case status < 400 || status > 599:
			return fmt.Errorf("%s: %d is not the status of a failure; use 400 to 599", key, status)
		case i > 0 && statuses[i-1] == status:
			return fmt.Errorf("%s: %d appears twice; remove one", key, status)
		}
	}
	return nil
}

func (e *entry) setNeverRetry(c Contract) error {
	if c.NeverRetry == nil {
		return nil
	}
	n := NeverRetry{Status: slices.Sorted(slices.Values(c.NeverRetry.Status))}
	e.NeverRetry = &n
	if err := checkFailures("never_retry: status", n.Status); err != nil {
		return err
	}
	if len(n.Status)+len(c.NeverRetry.Header) == 0 {
		return errors.New("never_retry: empty; name statuses in status or headers in header")
	}
	if len(c.NeverRetry.Header) > maxNever {
		return fmt.Errorf("never_retry: header names more than %d headers; name fewer", maxNever)
	}
	for _, name := range slices.Sorted(maps.Keys(c.NeverRetry.Header)) {
		value, folded := strings.TrimSpace(c.NeverRetry.Header[name]), strings.ToLower(name)
		switch _, twice := n.Header[folded]; {
		case !headerToken(name):
			return fmt.Errorf("never_retry: header %q is not a header name", name)
		case twice:
			return fmt.Errorf("never_retry: header %s appears twice; remove one", name)
		case value == "" || !redact.Printable(value):
			return fmt.Errorf("never_retry: header %s needs a value of printable ASCII", name)
		case n.Header == nil:
			n.Header = map[string]string{}
		}
		n.Header[folded] = strings.ToLower(value)
	}
	if c.Retry == nil {
		return nil
	}
	for _, status := range n.Status {
		if slices.Contains(c.Retry.On, status) {
			return fmt.Errorf("never_retry: status %d is in on of retry too; remove one", status)
		}
	}
	return nil
}

func (e *entry) checkRequiresKey() error {
	switch {
	case !e.RequiresKey:
		return nil
	case !slices.ContainsFunc(e.methods, once):
		return errors.New("requires_key: the entry lists neither POST nor PATCH; remove it")
	case e.Derive:
		return errors.New("requires_key: derive of upstream_idempotency gives every such call a key; remove requires_key or derive")
	case e.TTL <= 0:
		return errors.New("requires_key: a key permits no repeat without upstream_idempotency; add it with the target's ttl")
	}
	return nil
}

func (e *entry) setReconcile(in *Reconcile) error {
	if in == nil {
		return nil
	}
	r := *in
	e.Reconcile = &r
	method := parseMethod(r.Method)
	switch {
	case !bare(method):
		return fmt.Errorf("reconcile: method %q is not GET or HEAD", r.Method)
	case !slices.ContainsFunc(e.methods, once):
		return errors.New("reconcile: the entry lists neither POST nor PATCH, and its other calls may be repeated; remove it")
	case !slices.Contains(e.methods, method):
		return fmt.Errorf("reconcile: the entry does not list %s; add it to methods", r.Method)
	case r.URL == "":
		return errors.New("reconcile: url is missing; write the URL that shows the effect of a call")
	case r.Applied == "":
		return errors.New("reconcile: applied is missing; write the expression that shows that a call was applied")
	case r.Within < time.Second || r.Within > maxWithin:
		return fmt.Errorf("reconcile: within %s is not in 1s to 24h", r.Within)
	}
	return e.setProbe(r)
}

// setProbe compiles the template and the expressions of a probe. A template that the entry can never
// permit is refused; whether it permits a probe's own URL is decided when that is sent.
func (e *entry) setProbe(r Reconcile) error {
	probe, err := reconcile.Compile(reconcile.Spec{Method: r.Method, URL: r.URL, Applied: r.Applied, NotApplied: r.NotApplied})
	if err != nil {
		var lines []error
		for line := range strings.SplitSeq(err.Error(), "\n") {
			lines = append(lines, errors.New("reconcile: "+line))
		}
		return errors.Join(lines...)
	}
	e.probe = probe
	q := ask(&Request{Method: r.Method, URL: probe.Example()})
	f := q.urlForm
	if f == nil {
		f = e.fits(&q)
	}
	if f != nil {
		return fmt.Errorf("reconcile: url: the entry does not permit it: %s", f.Reason)
	}
	return nil
}

func (e *entry) setResponseSchema(in *ResponseSchema) error {
	if in == nil {
		return nil
	}
	s := *in
	e.ResponseSchema = &s
	switch {
	case len(s.Schema) == 0:
		return errors.New("response_schema: schema is missing; write a JSON Schema, or the path of a file with one")
	case s.Mode != SchemaStrict && s.Mode != SchemaWarn && s.Mode != SchemaRedact:
		return fmt.Errorf("response_schema: mode %q is not strict, warn or redact", s.Mode)
	}
	var err error
	if e.schema, err = jsonschema.Compile(s.Schema); err != nil {
		return fmt.Errorf("response_schema: %w", err)
	}
	return nil
}

// keyHeader is the header of idempotency keys where an entry names none.
const keyHeader = "Idempotency-Key"

// setIdempotency takes what the target promises of repeated keys. The entry's other members are set.
func (e *entry) setIdempotency(i *Idempotency) error {
	if i == nil {
		return nil
	}
	e.TTL, e.Derive = i.TTL, i.Derive
	folded := string(foldName(nil, i.Header))
	if i.Header != "" && !strings.EqualFold(i.Header, keyHeader) {
		e.KeyHeader, e.keyName = i.Header, folded
	}
	kind := classify([]byte(folded))
	switch {
	case i.TTL <= 0:
		return errors.New("upstream_idempotency: ttl must be positive")
	case i.Derive && !slices.ContainsFunc(e.methods, once):
		return errors.New("upstream_idempotency: derive is for POST and PATCH, and the entry lists neither; remove it")
	case e.KeyHeader == "":
	case !headerToken(i.Header):
		return fmt.Errorf("upstream_idempotency: header %q is not a header name", i.Header)
	case kind != headerFree && kind != headerIdempotency, folded == "content-type", folded == "user-agent":
		return fmt.Errorf("upstream_idempotency: header %s has another meaning; name the header in which the target reads keys", i.Header)
	case slices.Contains(e.owned, folded):
		return fmt.Errorf("upstream_idempotency: header %s is in headers of the entry too; remove one", i.Header)
	}
	return nil
}
