package traffic

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/policy"
	"weir/schemas"
)

// AnyMethod is the method of a rule for every one.
const AnyMethod = "ANY"

const (
	minStatus = 200
	maxStatus = 599

	maxName         = 256 // code points
	maxResourceType = 64

	badID = "must be 1 to 128 letters, digits and . _ : -"
)

// Invalid is why a rule is refused: a place in it (a JSON Pointer, such as
// /match/url_pattern; empty for the rule itself) and what is wrong there. It holds
// nothing of the rule's values.
//
//nolint:errname // reads as a sentence: a rule is Invalid
type Invalid struct {
	Pointer string
	Message string
}

func (e *Invalid) Error() string {
	if e.Pointer == "" {
		return "the rule " + e.Message
	}
	return "at " + e.Pointer + ": " + e.Message
}

func invalid(pointer, message string) error { return &Invalid{Pointer: pointer, Message: message} }

// check is about everything of a rule but its pattern and its to_url, which are
// parsed. Its errors are *Invalid.
func check(r *schemas.Rule) error {
	switch {
	case r.ID == "":
		return invalid("/id", "is missing")
	case !schemas.ValidID(r.ID):
		return invalid("/id", badID)
	case !schemas.ValidID(r.Group):
		return invalid("/group", badID)
	case !readable(r.Name, maxName):
		return invalid("/name", "must be at most "+strconv.Itoa(maxName)+" characters, without control or formatting characters")
	case r.Type == "":
		return invalid("/type", "is missing")
	case !slices.Contains(schemas.RuleTypes(), r.Type):
		return invalid("/type", "must be one of "+strings.Join(schemas.RuleTypes(), ", "))
	case r.Priority < -schemas.MaxRulePriority || r.Priority > schemas.MaxRulePriority:
		return invalid("/priority", "must be a whole number from -1000000 to 1000000")
	case r.Match.URLPattern == "":
		return badPattern("is missing")
	case r.Match.Method != AnyMethod && !schemas.KnownMethod(r.Match.Method):
		return invalid("/match/method", "must be GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or ANY")
	case !readable(r.Match.ResourceType, maxResourceType):
		return invalid("/match/resource_type", "must be at most "+strconv.Itoa(maxResourceType)+" characters, without control or formatting characters")
	}
	if err := checkScope(r.Scope); err != nil {
		return err
	}
	return checkAction(r.Type, &r.Action)
}

func checkScope(s *schemas.RuleScope) error {
	if s == nil {
		return nil
	}
	// Kind rule makes no calls.
	if s.ActionKind != "" && (s.ActionKind == schemas.KindRule || !slices.Contains(schemas.Kinds(), s.ActionKind)) {
		return invalid("/scope/action_kind", "is no kind of action that makes calls; those are http, passthrough, plan and run")
	}
	for _, id := range []struct{ name, value string }{{"agent", s.Agent}, {"task_id", s.TaskID}, {"request_id", s.RequestID}} {
		if id.value != "" && !schemas.ValidID(id.value) {
			return invalid("/scope/"+id.name, badID)
		}
	}
	return nil
}

// readable reports whether a text has no character that a reader does not see.
func readable(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) })
}

// checkAction: the action has what its type needs, and nothing of another.
func checkAction(kind string, a *schemas.RuleAction) error {
	for _, member := range []struct {
		name, kind string
		has        bool
	}{
		{"to_url", schemas.RuleRedirect, a.ToURL != ""},
		{"delay_ms", schemas.RuleDelay, a.DelayMS != nil},
		{"status", schemas.RuleMock, a.Status != 0},
		{"headers", schemas.RuleMock, len(a.Headers) > 0},
		{"body_mode", schemas.RuleMock, a.BodyMode != ""},
		{"body", schemas.RuleMock, len(a.Body) > 0},
		{"request_headers", schemas.RuleHeaders, len(a.RequestHeaders) > 0},
		{"response_headers", schemas.RuleHeaders, len(a.ResponseHeaders) > 0},
	} {
		if member.has && member.kind != kind {
			return invalid("/action/"+member.name, "does not go with the type "+kind)
		}
	}
	switch kind {
	case schemas.RuleDelay:
		return checkDelay(a)
	case schemas.RuleMock:
		return checkMock(a)
	case schemas.RuleHeaders:
		return checkChanges(a)
	default:
		return nil
	}
}

func checkDelay(a *schemas.RuleAction) error {
	switch {
	case a.DelayMS == nil:
		return invalid("/action/delay_ms", "is missing")
	case *a.DelayMS < 0 || *a.DelayMS > schemas.MaxRuleDelay:
		return invalid("/action/delay_ms", "must be a whole number from 0 to "+strconv.Itoa(schemas.MaxRuleDelay))
	default:
		return nil
	}
}

func checkChanges(a *schemas.RuleAction) error {
	switch n := len(a.RequestHeaders) + len(a.ResponseHeaders); {
	case n == 0:
		return invalid("/action", "changes no header; it needs request_headers or response_headers")
	case n > schemas.MaxRuleHeaders:
		return invalid("/action", "changes more than "+strconv.Itoa(schemas.MaxRuleHeaders)+" headers")
	}
	for i, c := range a.RequestHeaders {
		if err := checkChange("/action/request_headers/"+strconv.Itoa(i), c); err != nil {
			return err
		}
	}
	for i, c := range a.ResponseHeaders {
		if err := checkChange("/action/response_headers/"+strconv.Itoa(i), c); err != nil {
			return err
		}
	}
	return nil
}

func checkChange(at string, c schemas.HeaderChange) error {
	if c.Name == "" {
		return invalid(at+"/name", "is missing")
	}
	switch c.Op {
	case schemas.HeaderRemove:
		if c.Value != "" {
			return invalid(at+"/value", "does not go with remove")
		}
	case schemas.HeaderAppend:
		if c.Value == "" {
			return invalid(at+"/value", "must not be empty")
		}
	case schemas.HeaderSet:
		if c.Value == "" {
			return invalid(at+"/value", "must not be empty; to have none, use remove")
		}
	default:
		return invalid(at+"/op", "must be set, append or remove")
	}
	return refused(at, policy.CallerHeader(c.Name, c.Value))
}

// refused is policy's word about a header at a place.
func refused(at string, err error) error {
	if err == nil {
		return nil
	}
	reason := "is not allowed there"
	if denied, ok := errors.AsType[*policy.DeniedError](err); ok {
		reason = "is refused: " + denied.Reason
	}
	return invalid(at, reason)
}

// checkMock checks that an upstream could give the mock's answer.
func checkMock(a *schemas.RuleAction) error {
	if a.Status != 0 && (a.Status < minStatus || a.Status > maxStatus) {
		return invalid("/action/status", "must be a whole number from 200 to 599")
	}
	if err := checkBody(a); err != nil {
		return err
	}
	return checkMockHeaders(a.Headers)
}

func checkBody(a *schemas.RuleAction) error {
	switch a.BodyMode {
	case "":
		if len(a.Body) > 0 {
			return invalid("/action/body_mode", "is missing")
		}
	case bodyJSON, bodyText, bodyRaw, bodyBase64:
	default:
		return invalid("/action/body_mode", "must be json, text, raw or base64")
	}
	if len(a.Body) == 0 {
		return nil
	}
	if !json.Valid(a.Body) {
		return invalid("/action/body", "is not JSON")
	}
	if a.BodyMode != bodyJSON && a.Body[0] != '"' {
		return invalid("/action/body", "must be a string with this body_mode")
	}
	var raw []byte
	if a.BodyMode == bodyBase64 && json.Unmarshal(a.Body, &raw) != nil {
		return invalid("/action/body", "must be standard base64 with this body_mode")
	}
	if bodiless(a.Status) {
		return invalid("/action/body", "does not go with the status, which answers without one")
	}
	if len(content(a)) > schemas.MaxMockBody {
		return invalid("/action/body", "is larger than "+strconv.Itoa(schemas.MaxMockBody)+" bytes")
	}
	return nil
}

// bodiless holds for the statuses whose answers have no body by HTTP's own rules.
func bodiless(status int) bool { return status == 204 || status == 205 || status == 304 }

func checkMockHeaders(headers map[string]string) error {
	if len(headers) > schemas.MaxRuleHeaders {
		return invalid("/action/headers", "are more than "+strconv.Itoa(schemas.MaxRuleHeaders))
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if err := MockHeader(name, headers[name]); err != nil {
			return err
		}
		fold := strings.ToLower(name)
		if seen[fold] {
			return invalid("/action/headers", "hold one name twice, in another case")
		}
		seen[fold] = true
	}
	return nil
}

// MockHeader says why a mock may not answer with a header: it frames a message, is
// hop-by-hop or a cookie, or is none. Its error is *Invalid.
func MockHeader(name, value string) error {
	return refused("/action/headers", policy.AnswerHeader(name, value))
}
