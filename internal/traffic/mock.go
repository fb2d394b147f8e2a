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
	bodyJSON = "json"
	bodyText = "text"
	bodyRaw  = "raw"
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

// content is a mock's body as it is answered.
func content(a *schemas.RuleAction) []byte {
	if a.BodyMode == bodyJSON {
		return a.Body
	}
	var s string
	if json.Unmarshal(a.Body, &s) != nil {
		return nil
	}
	return []byte(s)
}
