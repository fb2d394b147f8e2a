package corpus_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// outboundRow is one line of the outbound corpus. Decoding is strict at every level: a
// member that no field takes is an error.
type outboundRow struct {
	ID       string            `json:"id"`
	Category string            `json:"category"`
	Policy   outboundPolicy    `json:"policy"`
	Request  outboundRequest   `json:"request"`
	Resolver map[string][]list `json:"resolver"` // the answers for a name, one a lookup
	Upstream behaviourSpec     `json:"upstream"`
	Expected string            `json:"expected"` // allow or deny
	Code     string            `json:"code"`
	Sent     [2]int            `json:"sent"`  // fewest and most requests on the wire
	Level    string            `json:"level"` // strict: the code is advice
	Static   bool              `json:"static"`
	Assert   outboundAssert    `json:"assert"`
	Why      string            `json:"why"`
}

type outboundPolicy struct {
	Entries   []entry `json:"entries"`
	SelfPorts []int   `json:"self_ports"` // for TestStatic
}

// entry is one of a policy, in the words of the corpus and of the configuration.
type entry struct {
	Name        string       `json:"name"`
	URLPrefix   string       `json:"url_prefix"`
	Methods     []string     `json:"methods,omitempty"`
	Redirects   int          `json:"redirects,omitempty"`
	Network     string       `json:"network,omitempty"`
	CIDRs       []string     `json:"cidrs,omitempty"`
	Idempotency *idempotency `json:"upstream_idempotency,omitempty"`
	Secret      *struct {
		Header string `json:"header"`
		Format string `json:"format"` // with {value}
	} `json:"secret,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Retry       json.RawMessage   `json:"retry,omitempty"`
	NeverRetry  json.RawMessage   `json:"never_retry,omitempty"`
	RequiresKey bool              `json:"requires_key,omitempty"`
	Connect     string            `json:"connect,omitempty"` // of no row: see tunneled
}

type idempotency struct {
	Seconds float64 `json:"ttl_s,omitempty"`
	TTL     string  `json:"ttl,omitempty"`
	Header  string  `json:"header,omitempty"`
	Derive  bool    `json:"derive,omitempty"`
}

// outboundRequest is sent member by member in this order, each value byte for byte.
type outboundRequest struct {
	Method         json.RawMessage `json:"method"`
	URL            string          `json:"url"`
	Key            json.RawMessage `json:"allowlist_key"`
	Headers        json.RawMessage `json:"headers"`
	Params         json.RawMessage `json:"params"`
	Body           json.RawMessage `json:"body"`
	ResponseSchema json.RawMessage `json:"response_schema"`
	IdempotencyKey json.RawMessage `json:"idempotency_key"`
}

// outboundAssert is what a row asserts beside verdict, code and number of requests.
type outboundAssert struct {
	// What the row needs.
	Rule          json.RawMessage `json:"rule"` // one traffic rule, or several
	SecretValue   string          `json:"secret_value"`
	Canary        string          `json:"canary"`
	InsecureField bool            `json:"insecure_field"` // the request asks for TLS without checks
	PolicyReload  *outboundPolicy `json:"policy_reload"`
	AfterRequests int             `json:"after_requests"`
	CrashAt       string          `json:"crash_at"` // such rows run in package processors
	// The network.
	Lookups      *int `json:"lookups"`
	Dialed       list `json:"dialed"`
	NeverDial    list `json:"never_dial"`
	NeverContact list `json:"never_contact"`
	// Every request on the wire. A text may have alternatives with "|" between them.
	HostHeader *string           `json:"host_header"`
	WirePath   *string           `json:"wire_path"`
	WireQuery  *string           `json:"wire_query"`
	WireMethod *string           `json:"wire_method"`
	WireBody   json.RawMessage   `json:"wire_body"`
	WireAbsent list              `json:"wire_absent"`
	WireHeader map[string]string `json:"wire_header"`
	SameHeader list              `json:"same_header_on_all"`
	// The outcome.
	Terminal       string `json:"terminal"`
	TerminalEvents int    `json:"terminal_events"`
	Attempts       int    `json:"attempts"`
	History        []any  `json:"history"` // of the attempts, a status or an outcome each
	Retryable      *bool  `json:"retryable"`
	RetryIsSafe    bool   `json:"retry_is_safe"`
	MaxWallSeconds int    `json:"max_wall_s"`
	MaxRSS         int64  `json:"max_rss_mb"`
	SnippetChars   *int   `json:"snippet_chars"`
	SnippetUTF8    bool   `json:"snippet_valid_utf8"`
	AnswerHas      list   `json:"answer_has"`
	NextRequest    list   `json:"next_request_absent"`
	Mocked         string `json:"mocked"`
	Ruled          list   `json:"ruled"`
	// Leaks.
	AbsentInResult   list `json:"absent_in_result"`
	AbsentIn         list `json:"absent_in"`
	AbsentEverywhere list `json:"absent_everywhere"`
}

// list is a list of texts, or one text.
type list []string

func (l *list) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = list{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// check returns an error for a value that the harness does not know.
func (r *outboundRow) check() error {
	if !slices.Contains([]string{"allow", "deny"}, r.Expected) || !slices.Contains([]string{"must", "strict"}, r.Level) {
		return fmt.Errorf("verdict %q or level %q is not known", r.Expected, r.Level)
	}
	for _, answers := range r.Resolver {
		for _, item := range slices.Concat(answers...) {
			words := []string{upstream.NXDomain, upstream.ServFail, upstream.DNSTimeout, upstream.EmptyAnswer}
			if _, err := netip.ParseAddr(item); err != nil && !slices.Contains(words, item) && !strings.HasPrefix(item, upstream.CNAME) {
				return fmt.Errorf("resolver answer %q is not known", item)
			}
		}
	}
	for _, sink := range r.Assert.AbsentIn {
		if !slices.Contains([]string{"logs", "traces", "metrics", "evidence"}, sink) {
			return fmt.Errorf("absent_in %q is not known", sink)
		}
	}
	_, behaviours := r.behaviours()
	_, generated := r.object()
	return errors.Join(behaviours, generated)
}

func (r *outboundRow) scheme() string {
	scheme, _, _ := strings.Cut(strings.ToLower(r.Request.URL), ":")
	return scheme
}

// hosts are the names of the row, and the host of its URL if that can be parsed.
func (r *outboundRow) hosts() []string {
	var all []string
	for host := range r.Resolver {
		all = append(all, host)
	}
	if u, err := url.Parse(r.Request.URL); err == nil && u.Hostname() != "" {
		all = append(all, strings.ToLower(u.Hostname()))
	}
	return all
}

// addresses are all that the row's resolver or its URL has, in their own form.
func (r *outboundRow) addresses() []string {
	all := r.hosts()
	for _, answers := range r.Resolver {
		for _, item := range slices.Concat(answers...) {
			if a, err := netip.ParseAddr(item); err == nil {
				all = append(all, a.Unmap().String())
			}
		}
	}
	return all
}

// planned rows go through POST /v1/plans: the executor has no parameters and no snippet.
func (r *outboundRow) planned() bool {
	return r.Request.Params != nil || r.Assert.SnippetChars != nil || r.Assert.SnippetUTF8
}

// object is the request as JSON text, which may be no JSON if the row is about that.
func (r *outboundRow) object() (string, error) {
	q := r.Request
	var members []string
	var errs error
	add := func(name string, value json.RawMessage) {
		if value != nil {
			text, err := written(value)
			errs = errors.Join(errs, err)
			members = append(members, `"`+name+`":`+text)
		}
	}
	add("method", q.Method)
	add("url", encode(q.URL))
	add("allowlist_key", q.Key)
	add("headers", q.Headers)
	add("params", q.Params)
	add("body", q.Body)
	add("response_schema", q.ResponseSchema)
	if r.planned() {
		add("idempotency_key", q.IdempotencyKey)
	}
	if r.Assert.InsecureField {
		add("insecure_skip_verify", encode(true))
	}
	return "{" + strings.Join(members, ",") + "}", errs
}

// body is the request in the words of its surface.
func (r *outboundRow) body() (path, body string) {
	object, _ := r.object() // check has seen that it can be made
	if r.planned() {
		return "/v1/plans", `{"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[{"effect_ref":"case","target_state":` + object + `}]}}`
	}
	key := ""
	if r.Request.IdempotencyKey != nil {
		key = `,"idempotency_key":` + string(r.Request.IdempotencyKey)
	}
	return "/v1/execute", `{"type":"Http","args":` + object + key + "}"
}

// written is a value of a row as JSON text: its own bytes, or those that {"gen": …} describes.
func written(raw json.RawMessage) (string, error) {
	var spec map[string]any
	_ = json.Unmarshal(raw, &spec) // most values are no objects
	name := member(spec, "gen")
	switch generate := generators[name]; {
	case name == "":
		return string(raw), nil
	case generate == nil:
		return "", fmt.Errorf("generator %q is not known", name)
	case name == "repeat":
		return string(encode(generate(spec))), nil
	default:
		return generate(spec), nil
	}
}

// schemaBomb is a small schema that a naive validator evaluates in 2^n steps.
func schemaBomb(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$ref":"#/$defs/d%d","$defs":{"d0":{"type":"null"}`, n)
	for i := range n {
		fmt.Fprintf(&b, `,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	return b.String() + "}}"
}

// shorthand is a traffic rule in the words of the corpus. A rule with an action is in the
// words of the agent API already.
type shorthand struct {
	Type   string          `json:"type"`
	Match  *string         `json:"match"` // a path at the request's host, or a pattern
	Regex  string          `json:"match_regex"`
	To     json.RawMessage `json:"to"`
	MS     json.RawMessage `json:"ms"`
	Set    map[string]any  `json:"set"`
	Append map[string]any  `json:"append"`
	Remove []string        `json:"remove"`
	Status json.RawMessage `json:"status"`
	Body   json.RawMessage `json:"body"`
	Heads  json.RawMessage `json:"headers"`
}

// rules are a row's traffic rules, as an agent would create them.
func (r *outboundRow) rules() ([]json.RawMessage, error) {
	var all []json.RawMessage
	if json.Unmarshal(r.Assert.Rule, &all) != nil {
		all = []json.RawMessage{r.Assert.Rule}
	}
	for i, raw := range all {
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(raw, &whole); err != nil {
			return nil, err
		}
		if whole["action"] != nil {
			continue
		}
		var s shorthand
		if err := readStrictly(raw, &s); err != nil {
			return nil, err
		}
		all[i] = r.spellOut(s, fmt.Sprintf("rule-%d", i))
	}
	return all, nil
}

// spellOut writes a shorthand in the words of the agent API. A rule without a path is for the
// row's own URL. There are no regular expressions: a rule that has one has no pattern.
func (r *outboundRow) spellOut(s shorthand, id string) json.RawMessage {
	host, path := "", ""
	if u, err := url.Parse(r.Request.URL); err == nil {
		host, path = u.Scheme+"://"+u.Host, u.EscapedPath()
	}
	match, action := map[string]any{"url_pattern": host + path}, map[string]any{}
	switch {
	case s.Regex != "":
		match = map[string]any{}
	case s.Match != nil && strings.HasPrefix(*s.Match, "/"):
		match["url_pattern"] = host + *s.Match
	case s.Match != nil:
		match["url_pattern"] = *s.Match
	}
	for name, value := range map[string]json.RawMessage{"to_url": s.To, "delay_ms": s.MS, "status": s.Status, "body": s.Body, "headers": s.Heads} {
		if value != nil {
			action[name] = value
		}
	}
	if s.Type == "header" {
		s.Type = schemas.RuleHeaders
	}
	var changes []map[string]any
	for op, values := range map[string]map[string]any{schemas.HeaderSet: s.Set, schemas.HeaderAppend: s.Append} {
		for name, value := range values {
			changes = append(changes, map[string]any{"op": op, "name": name, "value": value})
		}
	}
	for _, name := range s.Remove {
		changes = append(changes, map[string]any{"op": schemas.HeaderRemove, "name": name})
	}
	if changes != nil {
		action["request_headers"] = changes
	}
	return encode(map[string]any{"id": id, "type": s.Type, "match": match, "action": action})
}
