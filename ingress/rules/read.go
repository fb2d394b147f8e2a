// Package rules reads the requests of the agent API. It performs nothing and
// knows no HTTP.
package rules

import (
	stdjson "encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// The longest of what every answer repeats, in bytes.
const (
	maxRequestID = 256
	maxOperation = 64
)

// Read reads a body that strict.Check has passed: the envelope, or the request alone. Unknown
// members are ignored, except misspelled ones of its own. Even with an error, the request holds the
// request_id, operation and auth_token that could be read. Its errors are *fault.Error with
// INVALID_REQUEST, show no value of the body, and name positions in the request, with or without an
// envelope.
func Read(body []byte) (schemas.AgentRequest, error) {
	var req schemas.AgentRequest
	if strict.Kind(body) != '{' {
		return req, refuse("", "the body must be a JSON object")
	}
	raw, err := inner(body)
	if raw == nil {
		return req, err
	}
	m := membersOf(raw)
	req.RequestID, req.Operation = repeated(m["request_id"], maxRequestID), repeated(m["operation"], maxRequestID)
	token, isText := strict.String(m["auth_token"])
	req.AuthToken = token
	if err == nil {
		err = strict.Spelling("", raw, schemas.AgentRequest{})
	}
	if err != nil {
		return req, err
	}
	if id, ok := strict.String(m["request_id"]); !ok || id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, unicode.IsControl) {
		return req, refuse("/request_id", "must be a string of 1 to "+strconv.Itoa(maxRequestID)+" bytes without control characters")
	}
	if op, ok := strict.String(m["operation"]); !ok || op == "" || len(op) > maxOperation {
		return req, refuse("/operation", "must be the name of an operation, such as "+schemas.OpStatus)
	}
	if !isText && !strict.Absent(m["auth_token"]) {
		return req, refuse("/auth_token", "must be a string")
	}
	args := m["args"]
	if strict.Absent(args) {
		args = jsontext.Value(`{}`)
	}
	if strict.Kind(args) != '{' {
		return req, refuse("/args", "must be an object")
	}
	req.Args = stdjson.RawMessage(args)
	return req, nil
}

// inner finds the request in a body. It is nil where there is none.
func inner(body []byte) (raw jsontext.Value, err error) {
	m := membersOf(body)
	if err := strict.Spelling("", body, schemas.AgentEnvelope{}); err != nil {
		return m["request"], err
	}
	typed := !strict.Absent(m["type"])
	if _, enveloped := m["request"]; !typed && !enveloped {
		return body, nil
	}
	raw = m["request"]
	if strict.Kind(raw) != '{' {
		return nil, refuse("/request", "must be an object; send it as {\"type\":\""+schemas.AgentAPIType+"\",\"request\":{…}}, or alone")
	}
	if kind, ok := strict.String(m["type"]); typed && (!ok || kind != schemas.AgentAPIType) {
		err = refuse("/type", "must be "+schemas.AgentAPIType)
	}
	return raw, err
}

// membersOf reads an object; of anything else it gives none.
func membersOf(raw []byte) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	if strict.Kind(raw) != '{' || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// repeated is a text in the form that an answer repeats, or "" for an overlong or malformed one.
func repeated(v jsontext.Value, most int) string {
	s, ok := strict.String(v)
	if !ok || len(s) > most {
		return ""
	}
	return s
}

// Known refuses an operation that there is not.
func Known(operation string) error {
	if Reads(operation) || slices.Contains(schemas.AgentWrites(), operation) {
		return nil
	}
	return fault.New(schemas.InvalidRequest, "there is no such operation; there are "+
		strings.Join(slices.Concat(schemas.AgentReads(), schemas.AgentWrites()), ", "))
}

// Reads reports whether an operation changes nothing.
func Reads(operation string) bool { return slices.Contains(schemas.AgentReads(), operation) }

// Scopes are those of which a token needs one for an operation; none: any token
// will do.
func Scopes(operation string) []string {
	switch {
	case operation == schemas.OpPing:
		return nil
	case Reads(operation):
		return ReadScopes()
	default:
		return []string{schemas.ScopeRulesWrite}
	}
}

// ReadScopes are those of which a token needs one to see the rules.
func ReadScopes() []string { return []string{schemas.ScopeActionsRead, schemas.ScopeRulesWrite} }

func refuse(pointer, what string) error {
	if pointer != "" {
		what = "at " + pointer + ": " + what
	}
	return fault.New(schemas.InvalidRequest, what)
}
