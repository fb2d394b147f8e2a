package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/schemas"
)

// The values that an entry adds are sent in the operator's name, and targets have any number of
// headers and parameters that name the user or account of a call. A list of those can never be
// complete. So beside the added values, callers set only what is known to be harmless, and what the
// entry names in caller_headers and caller_params.

// callerHeader reports whether callers may set a header at an entry that adds something. The name is folded.
func (e *entry) callerHeader(name string) bool {
	switch name {
	case "accept", "git-protocol", "content-type", "content-encoding", "content-language", "prefer", "user-agent", "x-request-id", "traceparent", "tracestate",
		"cache-control", "pragma", "sec-fetch-mode": // fetch of Node.js sends these three by itself
		return true
	}
	return begins(name, "accept-", "if-", "x-stainless-") || ends(name, "-version", "-beta") || matchAny(e.callerHeaders, name)
}

// namesCredential reports whether the operator lets callers send a credential of their own in
// addition to the entry's: caller_headers must contain its exact name; a pattern is not enough.
func (e *entry) namesCredential(name string) bool { return slices.Contains(e.callerHeaders, name) }

// checkCallerQuery refuses a query with a parameter that the entry does not leave to callers.
func checkCallerQuery(e *entry, q *question, r *Request) denial {
	if !e.injects || r.Internal {
		return nil
	}
	if _, foreign := foreignParam(e, q.url.Query); foreign {
		return deniedQueryCaller
	}
	return nil
}

// foreignParam is the first parameter, with its escapes, that callers may not set at an entry that adds something.
func foreignParam(e *entry, query string) (name string, found bool) {
	for raw := range paramNames(query) {
		var buf [maxAddedName]byte
		if !matchAny(e.callerParams, string(paramName(buf[:0], raw))) {
			return raw, true
		}
	}
	return "", false
}

// matchAny reports whether a name matches one of the patterns, which have at most one *, at either
// end. Some parsers take the part before a NUL or a bracket as a parameter's name, so its end
// proves nothing.
func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		head, fromStart := strings.CutSuffix(p, "*")
		tail, toEnd := strings.CutPrefix(p, "*")
		if p == name || fromStart && strings.HasPrefix(name, head) ||
			toEnd && strings.HasSuffix(name, tail) && !strings.ContainsAny(name, "[\x00") {
			return true
		}
	}
	return false
}

// setCaller takes what callers may set beside what the entry adds.
func (e *entry) setCaller(headers, params []string) error {
	return errors.Join(
		e.setPatterns("caller_headers", headers, &e.callerHeaders, checkCallerHeader),
		e.setPatterns("caller_params", params, &e.callerParams, checkCallerParam),
	)
}

func (e *entry) setPatterns(key string, list []string, to *[]string, check func(e *entry, pattern, name string) (string, error)) error {
	if len(list) > 0 && !e.injects {
		return errors.New(key + ": the entry adds nothing, so that callers may set anything that is not refused everywhere; leave it out")
	}
	for _, pattern := range list {
		name := strings.TrimSuffix(strings.TrimPrefix(pattern, "*"), "*")
		stars := len(pattern) - len(name)
		if strings.Contains(name, "*") || pattern != "*" && (name == "" || stars > 1) {
			return fmt.Errorf("%s: %q is not a name, or the beginning or end of one with a *", key, pattern)
		}
		folded, err := check(e, pattern, name)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if slices.Contains(*to, folded) {
			return fmt.Errorf("%s: %s appears twice", key, pattern)
		}
		*to = append(*to, folded)
	}
	slices.Sort(*to)
	return nil
}

func checkCallerHeader(e *entry, pattern, name string) (string, error) {
	if name != "" && !headerToken(name) {
		return "", fmt.Errorf("%q is not a header name", pattern)
	}
	folded := string(foldName(nil, name))
	if name == pattern {
		switch kind := classify([]byte(folded)); {
		case kind != headerFree && (kind != headerCredential || !OwnCredential(name)):
			return "", fmt.Errorf("%s is refused to every caller; remove it", pattern)
		case slices.Contains(e.owned, folded):
			return "", fmt.Errorf("%s is set by the entry itself; remove it", pattern)
		case folded == e.keyName:
			return "", fmt.Errorf("%s is the header for keys, which callers declare in idempotency_key; remove it", pattern)
		}
	}
	return strings.Replace(pattern, name, folded, 1), nil
}

func checkCallerParam(e *entry, pattern, name string) (string, error) {
	switch {
	case pattern == "*":
	case !addedName(name, "-._~$:@[]"):
		return "", fmt.Errorf("%q is not a parameter name; use letters, digits and -._~$:@[]", pattern)
	case name == pattern && e.ownsParam(name):
		return "", fmt.Errorf("%s is set by the entry itself; remove it", pattern)
	}
	return pattern, nil
}

// strictest is an entry that permits no credential of the caller's, and no coded body.
func strictest() *entry { return &entry{credential: true, members: []string{""}} }

// CallerHeader checks one header against the names that Decide refuses to every caller, whatever
// the entry. Its error is a *DeniedError.
func CallerHeader(name, value string) error {
	return asError(checkHeader(strictest(), schemas.Header{Name: name, Value: value}))
}

// AnswerHeader holds one header against what no answer of our own making may
// have: what frames a message or is hop-by-hop, and cookies. Its error is a
// *DeniedError.
func AnswerHeader(name, value string) error {
	f := checkHeader(strictest(), schemas.Header{Name: name, Value: value})
	if f != deniedHeaderRouting && f != deniedHeaderCredential && f != deniedHeaderMetadata && f != deniedHeaderIdempotency {
		return asError(f)
	}
	var buf [maxHeaderName]byte
	switch string(foldName(buf[:0], name)) {
	case "cookie", "cookie2", "set-cookie", "set-cookie2", "host", "authorization":
		return asError(f)
	}
	return asError(checkText(value))
}

// checkText is the part of checkHeader that checks a value alone, for names that it refuses before
// that step.
func checkText(value string) denial {
	return checkHeader(strictest(), schemas.Header{Name: "x", Value: value})
}

// Carry decides whether a permitted call may have these headers of the caller's. Redirect does not
// check them: Carry is for headers that were changed after it.
func (p *Permit) Carry(headers []schemas.Header) Decision {
	if !p.Valid() {
		return deny(nil, nil, deniedNoPermit)
	}
	if f := checkHeaders(p.entry, headers); f != nil {
		return deny(p.policy, p.entry, f)
	}
	return p.policy.allow(*p)
}
