package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/policy/placeholder"
)

const (
	maxAdded     = 64  // names in each of headers, query and body
	maxAddedName = 256 // bytes
)

// setHeaders takes the headers that the worker adds. The values of what is
// added are never part of an error: they may hold credentials.
func (e *entry) setHeaders(headers map[string]string) error {
	if err := e.mayAdd("headers", headers); err != nil {
		return err
	}
	for name, value := range headers {
		if !headerToken(name) {
			return fmt.Errorf("headers: %q is not a header name", name)
		}
		folded := string(foldName(nil, name))
		switch kind := classify([]byte(folded)); {
		case kind == headerFraming, kind == headerMetadata, kind == headerIdempotency, folded == "host":
			return fmt.Errorf("headers: %s cannot be set", name)
		case slices.Contains(e.owned, folded):
			return fmt.Errorf("headers: %s is there twice", name)
		}
		if IsTrace(name, value) {
			e.owned = append(e.owned, folded)
			continue
		}
		if err := checkAdded("headers", name, value); err != nil {
			return err
		}
		e.owned = append(e.owned, folded)
	}
	slices.Sort(e.owned)
	return nil
}

// setQuery takes the parameters that the worker adds.
func (e *entry) setQuery(query map[string]string) error {
	if err := e.mayAdd("query", query); err != nil {
		return err
	}
	for name, value := range query {
		if !addedName(name, "-._~$:@[]") {
			return fmt.Errorf("query: %q is not a parameter name; use letters, digits and -._~$:@[]", name)
		}
		folded := string(foldParam([]byte(name)))
		if slices.ContainsFunc(e.params, func(own string) bool { return strings.EqualFold(own, folded) }) {
			return fmt.Errorf("query: %s is there twice", name)
		}
		if err := checkAdded("query", name, value); err != nil {
			return err
		}
		e.params = append(e.params, folded)
	}
	slices.Sort(e.params)
	return nil
}

// setBody takes the members that the worker adds to a JSON object. Two names
// that differ by case alone are one to some readers.
func (e *entry) setBody(body map[string]string) error {
	if err := e.mayAdd("body", body); err != nil {
		return err
	}
	for name, value := range body {
		if !addedName(name, "-._~$:@[]/+# ") {
			return fmt.Errorf("body: %q is not a member name; use letters, digits, spaces and -._~$:@[]/+#", name)
		}
		if e.ownsMember(name) {
			return fmt.Errorf("body: %s is there twice", name)
		}
		if err := checkAdded("body", name, value); err != nil {
			return err
		}
		e.members = append(e.members, name)
	}
	slices.Sort(e.members)
	return nil
}

// mayAdd holds what would be added against the breadth of the entry: it goes to
// one host and to no other.
func (e *entry) mayAdd(key string, added map[string]string) error {
	switch {
	case len(added) == 0:
		return nil
	case e.any || strings.HasPrefix(e.host, "."):
		return errors.New(key + ": an entry for any host would send them to any host")
	case len(added) > maxAdded:
		return fmt.Errorf("%s: there are more than %d", key, maxAdded)
	}
	return nil
}

// TracePlaceholder stands for the span of the call, as the value of the header traceparent
// and nowhere else.
const TracePlaceholder = "${trace}"

// IsTrace reports whether a header that an entry adds is the one that tells its target
// of the call's span. It is left out where nobody named one.
func IsTrace(name, value string) bool {
	return value == TracePlaceholder && strings.EqualFold(name, "traceparent")
}

// checkAdded judges a value by the rule of headers, wherever it goes.
func checkAdded(key, name, value string) error {
	switch {
	case !headerText(value) || len(value) > maxHeaderValue:
		return fmt.Errorf("%s: the value of %s is not printable ASCII of at most %d bytes", key, name, maxHeaderValue)
	case !placeholder.Strict(value):
		return fmt.Errorf("%s: the value of %s has a placeholder that is not ${secret:NAME}", key, name)
	}
	return nil
}

// addedName holds for letters, digits and the characters of others.
func addedName(s, others string) bool {
	if len(s) > maxAddedName || strings.TrimSpace(s) == "" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !letter(c) && !digit(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}
