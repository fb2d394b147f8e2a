package traffic

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"weir/schemas"
)

// The ways in which a mock's body is meant.
const (
	bodyJSON   = "json"
	bodyText   = "text"
	bodyRaw    = "raw"
	bodyBase64 = "base64"
)

// answer is what a mock that was checked answers.
func answer(a *schemas.RuleAction) *Answer {
	out := &Answer{Status: cmp.Or(a.Status, minStatus), Body: content(a)}
	for name, value := range a.Headers {
		out.Headers = append(out.Headers, schemas.Header{Name: strings.ToLower(name), Value: value})
	}
	media := ""
	switch {
	case len(a.Body) == 0 || slices.ContainsFunc(out.Headers, func(h schemas.Header) bool { return h.Name == "content-type" }):
	case a.BodyMode == bodyJSON:
		media = "application/json"
	case a.BodyMode == bodyText:
		media = "text/plain; charset=utf-8"
	}
	if media != "" {
		out.Headers = append(out.Headers, schemas.Header{Name: "content-type", Value: media})
	}
	slices.SortFunc(out.Headers, func(a, b schemas.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// content is a mock's body as it is answered. The protocol's own form of a JSON body is a
// string that holds the document; a string that holds none is the answer itself.
func content(a *schemas.RuleAction) []byte {
	if a.BodyMode == bodyBase64 {
		var raw []byte
		_ = json.Unmarshal(a.Body, &raw) // a mock that was checked can be read
		return raw
	}
	var s string
	text := json.Unmarshal(a.Body, &s) == nil
	switch {
	case text && (a.BodyMode != bodyJSON || json.Valid([]byte(s))):
		return []byte(s)
	case a.BodyMode == bodyJSON:
		return a.Body
	default:
		return nil
	}
}

// EditHeaders makes changes to the headers of an answer, sorted and in lower case
// before and after. The slice given is not changed.
func EditHeaders(headers []schemas.Header, changes []schemas.HeaderChange) []schemas.Header {
	return edit(headers, changes, true)
}

// edit makes changes to headers that are sorted by their names, whatever the case.
// With fold, new names are written in lower case. The slice given is not changed.
func edit(headers []schemas.Header, changes []schemas.HeaderChange, fold bool) []schemas.Header {
	if len(changes) == 0 {
		return headers
	}
	out := slices.Clone(headers)
	for _, c := range changes {
		out = editOne(out, c, fold)
	}
	return out
}

func editOne(out []schemas.Header, c schemas.HeaderChange, fold bool) []schemas.Header {
	name := c.Name
	if fold {
		name = strings.ToLower(name)
	}
	if c.Op == schemas.HeaderAppend {
		for i, h := range slices.Backward(out) {
			if strings.EqualFold(h.Name, name) {
				out[i].Value = join(h.Value, c.Value)
				return out
			}
		}
	} else {
		out = slices.DeleteFunc(out, func(h schemas.Header) bool { return strings.EqualFold(h.Name, name) })
		if c.Op == schemas.HeaderRemove {
			return out
		}
	}
	lower := strings.ToLower(name)
	i := slices.IndexFunc(out, func(h schemas.Header) bool { return strings.ToLower(h.Name) > lower })
	if i < 0 {
		i = len(out)
	}
	return slices.Insert(out, i, schemas.Header{Name: name, Value: c.Value})
}

// join adds a value to a list of them.
func join(list, value string) string {
	if list == "" {
		return value
	}
	return list + ", " + value
}
