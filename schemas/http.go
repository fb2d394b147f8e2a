package schemas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The headers that say when an action begins.
const (
	HeaderDelay     = "Weir-Delay"      // a duration such as 30s later
	HeaderNotBefore = "Weir-Not-Before" // at an instant of RFC 3339 at the earliest
	HeaderPriority  = "Weir-Priority"   // high: before those that wait and are not
)

// Header is one header field. Order and repeats are kept.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HeadersByName are fields by their names in lower case. The values of one that is repeated are joined by commas.
func HeadersByName(fields []Header) map[string]string {
	byName := make(map[string]string, len(fields))
	for _, f := range fields {
		name := strings.ToLower(f.Name)
		if before, ok := byName[name]; ok {
			f.Value = before + ", " + f.Value
		}
		byName[name] = f.Value
	}
	return byName
}

// Stored is the field as JSON can hold it: a value that is not UTF-8 has one character for each byte,
// after a NUL, which no value has. AsCame undoes it.
func (h Header) Stored() Header {
	if !utf8.ValidString(h.Value) {
		text := make([]rune, 1, len(h.Value)+1)
		for _, b := range []byte(h.Value) {
			text = append(text, rune(b))
		}
		h.Value = string(text)
	}
	return h
}

// AsCame is the field that Stored was called on.
func (h Header) AsCame() Header {
	if text, ok := strings.CutPrefix(h.Value, "\x00"); ok {
		raw := make([]byte, 0, len(text))
		for _, r := range text {
			raw = append(raw, byte(r)) //nolint:gosec // Stored has made each of a byte
		}
		h.Value = string(raw)
	}
	return h
}

// Methods are the methods that calls can have.
func Methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
}

// KnownMethod holds for Methods, in upper case.
func KnownMethod(method string) bool { return slices.Contains(Methods(), method) }

// HTTPCall is one outbound request in Weir's own terms: the payload of kind
// http, and what a plan's decision is translated to.
type HTTPCall struct {
	Method       string `json:"method"` // upper case
	URL          string `json:"url"`    // as the caller gave it; policy alone parses it
	AllowlistKey string `json:"allowlist_key,omitempty"`
	// Headers are the caller's, sorted by name.
	Headers []Header `json:"headers,omitempty"`
	// Body is the JSON value to send, byte for byte. With TextBody it is a JSON string whose content
	// is sent instead; with Base64Body a JSON string, and the bytes that it encodes are sent.
	Body       json.RawMessage `json:"body,omitempty"`
	TextBody   bool            `json:"text_body,omitempty"`
	Base64Body bool            `json:"base64_body,omitempty"`
	// BodyBlob names, by its hex SHA-256, a body that is stored apart in place of Body and is sent byte for
	// byte. BodyBytes is its size.
	BodyBlob  string `json:"body_blob,omitempty"`
	BodyBytes int    `json:"body_bytes,omitempty"`
	// ContentType is sent where Headers have none; empty: application/json if there is a body.
	ContentType string `json:"content_type,omitempty"`
	// IdempotencyKey goes out as the Idempotency-Key header.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Timeout bounds one attempt, dialling included; 0 means the policy's.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// ResponseSchema is a JSON Schema of draft 2020-12 for the response body.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	// Postcondition is kept as the caller gave it.
	Postcondition json.RawMessage `json:"postcondition,omitempty"`
	// Denied is set where policy denied the call when it was accepted: its action is settled so, and
	// nothing else is kept of the call but method, URL and key.
	Denied *DeniedCall `json:"denied,omitempty"`
}

// Sent is the body as it is sent: its JSON as it came, or the text or the bytes in it.
func (c *HTTPCall) Sent() ([]byte, error) {
	switch {
	case c.Body == nil || !c.TextBody && !c.Base64Body:
		return c.Body, nil
	case c.Base64Body:
		var raw []byte
		err := json.Unmarshal(c.Body, &raw)
		return raw, err
	default:
		var text string
		err := json.Unmarshal(c.Body, &text)
		return []byte(text), err
	}
}

// DropBody takes the body from the call.
func (c *HTTPCall) DropBody() {
	c.Body, c.TextBody, c.Base64Body, c.BodyBlob, c.BodyBytes, c.ContentType = nil, false, false, "", 0, ""
}

// SentSize is the size in bytes of the body as it is sent. A body that cannot be read counts as it is.
func (c *HTTPCall) SentSize() int {
	quoted := len(c.Body) >= len(`""`)
	switch inner := len(c.Body) - len(`""`); {
	case c.BodyBlob != "":
		return c.BodyBytes
	case c.Base64Body && quoted: // its letters are never escaped
		return base64.StdEncoding.DecodedLen(inner) - bytes.Count(c.Body, []byte("="))
	case c.TextBody && quoted && bytes.IndexByte(c.Body, '\\') < 0:
		return inner
	case c.TextBody:
		if sent, err := c.Sent(); err == nil {
			return len(sent)
		}
	}
	return len(c.Body)
}

// DeniedCall is what is kept of a denied call beside where it would have gone.
type DeniedCall struct {
	Decision Decision `json:"decision"`
	// BodySHA256 is the hex SHA-256 of the body as it would have been sent, BodyBytes its size.
	BodySHA256 string `json:"body_sha256,omitempty"`
	BodyBytes  int    `json:"body_bytes,omitempty"`
}

// Answer is a complete response as it is kept and shown: redacted, headers
// sorted by name in lower case, decompressed.
type Answer struct {
	Status  int      `json:"status"`
	Headers []Header `json:"headers"`
	// Body is the parsed JSON as it came, a JSON string where the body was not
	// JSON, or null where there was none.
	Body json.RawMessage `json:"body"`
	// JSON says that Body is the upstream's own JSON, not a string made of text.
	JSON bool `json:"json,omitempty"`
	// Base64 says that Body is a string of standard base64: the bytes are no text.
	Base64 bool `json:"base64,omitempty"`
	// Hash is the hex SHA-256 of the raw bytes, "" for an empty body.
	Hash string `json:"hash"`
	// Hidden are the fields of Headers whose values are not shown there, by Header.Stored. They are
	// kept for kind passthrough, whose caller gets them, and shown in no other place.
	Hidden []Header `json:"hidden,omitempty"`
	// Streamed: the body is in the deltas of the attempt, and Size is the number of its bytes.
	Streamed bool  `json:"streamed,omitempty"`
	Size     int64 `json:"size,omitempty"`
	// Snippet is the first 512 code points, invalid bytes dropped.
	Snippet string `json:"snippet,omitempty"`
	// RetryAfter is the upstream's own wish.
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	// NoRoute is set for an agent's answer which proves that it does not serve the route, so
	// that nothing ran.
	NoRoute bool `json:"no_route,omitempty"`
}

// RetryRecord is one line of a call's history; the last attempt has one too.
type RetryRecord struct {
	Attempt int `json:"attempt"`
	// Outcome is {"status":n}, "timeout", "connect" or {"other":"…"}.
	Outcome json.RawMessage `json:"outcome"`
}

// HTTPResult is the result document of kind http, for every outcome. The
// executor's answer is rendered from it alone.
type HTTPResult struct {
	// Variant is empty on success, else the executor's error variant.
	Variant string  `json:"variant,omitempty"`
	Message string  `json:"message,omitempty"`
	Answer  *Answer `json:"answer,omitempty"`
	// Report is the postconditions' report.
	Report  json.RawMessage `json:"report,omitempty"`
	History []RetryRecord   `json:"history,omitempty"`
	// Reconciled: the call's own answer was lost. Answer is from the probe that showed its effect.
	Reconciled bool `json:"reconciled,omitempty"`
	// Warnings are violations of the response schema of an entry that only warns.
	Warnings []string `json:"warnings,omitempty"`
	// LastError is the display text of the last attempt's failure.
	LastError string    `json:"last_error,omitempty"`
	Decision  *Decision `json:"decision,omitempty"`
}

// UnknownText is the error text for a call that may have taken effect. It is written for a model
// that reads it: nothing in it invites another try.
const UnknownText = "it is unknown whether this took effect, and a repeat could make it happen twice: " +
	"do not send it again; look at the target, or ask a person to resolve the action"

// Unprobed is UnknownText with the reason why the probe of the entry could not be made; empty: there is none.
func Unprobed(why string) string {
	if why != "" {
		why = "; the entry's reconcile probe was not made: " + why
	}
	return UnknownText + why
}

// UnknownText is the error text for an unknown outcome of the action with an id.
func (s *Settled) UnknownText(id string) string {
	switch r := s.Resolution; {
	case r == nil && strings.HasPrefix(s.Message, UnknownText): // with the reason of Unprobed
		return s.Message
	case r == nil:
		return UnknownText
	case r.Effect == EffectNotApplied:
		return "a person found that this had no effect, and the action can be redriven: POST /v1/actions/" + id +
			"/redrive, or weir actions redrive " + id
	default:
		return "a person found that this took effect: do not send it again"
	}
}

// The executor's error variants.
const (
	VariantUnsupportedPrimitive     = "UnsupportedPrimitive"
	VariantMissingArgument          = "MissingArgument"
	VariantInvalidArgumentValue     = "InvalidArgumentValue"
	VariantInvalidMethod            = "InvalidMethod"
	VariantInvalidURL               = "InvalidUrl"
	VariantInvalidHeaderName        = "InvalidHeaderName"
	VariantInvalidHeaderValue       = "InvalidHeaderValue"
	VariantDisallowedHost           = "DisallowedHost"
	VariantRequest                  = "Request"
	VariantInvalidSchema            = "InvalidSchema"
	VariantSchemaValidationFailed   = "SchemaValidationFailed"
	VariantHTTPFailure              = "HttpFailure"
	VariantRetriesExhausted         = "RetriesExhausted"
	VariantInvalidPostcondition     = "InvalidPostcondition"
	VariantUnsupportedPostcondition = "UnsupportedPostcondition"
	VariantPostconditionFailed      = "PostconditionFailed"
	VariantOutcomeUnknown           = "OutcomeUnknown"
	VariantCanceled                 = "Canceled"
	VariantExpired                  = "Expired"
)

// HeaderTraceParent is the header of W3C Trace Context in which a caller names the span
// that a request is a part of.
const HeaderTraceParent = "Traceparent"

// ValidTraceParent reports whether a text is such a header's value in version 00: what
// may be kept with an action.
func ValidTraceParent(s string) bool {
	const form = "00-################################-################-##"
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; form[i] != '#' && c != form[i] || form[i] == '#' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ParseRate reads a rate as it is written everywhere: a count, a slash, and s,
// m or h, such as "10/s" or "1000/h". The count is 1 to 999999999, without a
// leading zero.
func ParseRate(s string) (count int, per time.Duration, ok bool) {
	number, unit, found := strings.Cut(s, "/")
	if !found || len(number) > 9 || number == "" || number[0] == '0' || strings.Trim(number, "0123456789") != "" {
		return 0, 0, false
	}
	switch unit {
	case "s":
		per = time.Second
	case "m":
		per = time.Minute
	case "h":
		per = time.Hour
	default:
		return 0, 0, false
	}
	count, err := strconv.Atoi(number)
	return count, per, err == nil
}

// RoutePassthrough is the path before the name of an entry and the path of its target.
const RoutePassthrough = "/via/"

// HeaderRefused is set on the answers of passthrough that are Weir's own, to their code. Those of
// the target do not have it.
const HeaderRefused = "Weir-Refused"

// HeaderReconciled is "true" on an answer of passthrough that comes from a probe: the call was applied,
// and its own answer was lost.
const HeaderReconciled = "Weir-Reconciled"

// AnswerPart is the data of a delta of kind passthrough: a piece of an answer that arrives in
// several. The first one has the status and the headers.
type AnswerPart struct {
	Status  int      `json:"status,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	// Hidden are those of Headers whose values are not shown there: see Answer.
	Hidden []Header `json:"hidden,omitempty"`
	// Text is the piece if it is valid UTF-8, otherwise Base64 is.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// Piece is what the part adds to the body.
func (p AnswerPart) Piece() []byte {
	if p.Base64 != nil {
		return p.Base64
	}
	return []byte(p.Text)
}

// Bytes are the bytes of an answer's body. It is false for a body that cannot be read.
func (a Answer) Bytes() (body []byte, ok bool) {
	switch {
	case a.JSON:
		return a.Body, true
	case len(a.Body) == 0, string(a.Body) == "null":
		return nil, true
	case a.Base64:
		return body, json.Unmarshal(a.Body, &body) == nil
	default:
		var text string
		err := json.Unmarshal(a.Body, &text)
		return []byte(text), err == nil
	}
}

// TunnelState is the state of a tunnel of the forward proxy in a record.
type TunnelState string

// The states. A tunnel that is opened has a record of its end later, unless its node was killed.
const (
	TunnelOpened  TunnelState = "opened"
	TunnelRefused TunnelState = "refused"
	TunnelEnded   TunnelState = "ended"
)

// TunnelEnd is how a tunnel ended.
type TunnelEnd string

// The ends of a tunnel.
const (
	TunnelClosed  TunnelEnd = "closed"  // the client and the target had both ended
	TunnelFailed  TunnelEnd = "failed"  // the client or the target broke the connection
	TunnelIdle    TunnelEnd = "idle"    // nothing passed for as long as proxy.idle
	TunnelTooLong TunnelEnd = "longest" // it was open for as long as proxy.longest
	TunnelName    TunnelEnd = "name"    // TLS in it asked for another host than the one permitted
	TunnelRevoked TunnelEnd = "revoked" // its token ended
	TunnelDenied  TunnelEnd = "denied"  // a reload denied or changed its entry
	TunnelPaused  TunnelEnd = "paused"  // an operator paused what it is for, or pinned it open
	TunnelStopped TunnelEnd = "stopped" // its node stopped
)

// TunnelEnds lists the ends.
func TunnelEnds() []TunnelEnd {
	return []TunnelEnd{TunnelClosed, TunnelFailed, TunnelIdle, TunnelTooLong, TunnelName, TunnelRevoked, TunnelDenied, TunnelPaused, TunnelStopped}
}

// TunnelAudit is the payload of the evidence of kind proxy.tunnel. The records of one tunnel have one
// action_id, which names no action: a tunnel is none, and cannot be replayed.
type TunnelAudit struct {
	State TunnelState `json:"state"` // opened, refused or ended
	// Target is the host and the port, as policy reads them; empty if they cannot be read.
	Target string `json:"target,omitempty"`
	// Connect is tunnel or inspect, as the entry says. Network is what the entry grants, and what the
	// dialled address is: public, loopback or private. Both are empty if policy denied the tunnel.
	Connect string `json:"connect,omitempty"`
	Network string `json:"network,omitempty"`
	// Reason says why it was refused.
	Reason string    `json:"reason,omitempty"`
	End    TunnelEnd `json:"end,omitempty"`
	// BytesUp went to the target, BytesDown to the client.
	BytesUp    int64 `json:"bytes_up"`
	BytesDown  int64 `json:"bytes_down"`
	DurationMS int64 `json:"duration_ms"`
}
