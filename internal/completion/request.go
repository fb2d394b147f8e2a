package completion

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// errNoObject: it is no object, or has a name twice.
var errNoObject = errors.New("completion: not one JSON object with each name once")

// Change is what becomes of a request on its way to a model.
type Change struct {
	// Model is the model's name there; empty: it stays.
	Model string
	// Usage adds stream_options.include_usage.
	Usage bool
}

// Request is a request with a change. Every byte of every other member stays as it is,
// numbers and the order of members too; stream_options keeps its other members. Of a
// name that stands twice nobody can say which one a provider reads, so it is an error,
// as is what is no JSON object.
func Request(body json.RawMessage, c Change) (json.RawMessage, error) {
	if k := jsontext.Value(body).Kind(); k != '{' || !jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return nil, errNoObject
	}
	if c.Model != "" {
		body = set(body, "model", quote(c.Model), true)
	}
	if c.Usage {
		options := find(body, "stream_options")
		if kindOf(options) != '{' {
			options = []byte("{}")
		}
		body = set(body, "stream_options", set(options, "include_usage", []byte("true"), false), false)
	}
	return body, nil
}

// Without is an object without the members of a name; every byte of every other one
// stays as it is.
func Without(object json.RawMessage, name string) json.RawMessage {
	cut := 0 // up to here it is in out
	var out []byte
	kept, found := false, false
	last := 0 // where the last member that stays ends
	for w := members(object, 0); w.next(); {
		if !w.is(name) {
			kept, last = true, w.to
			continue
		}
		found = true
		from, to := w.start, w.to
		if kept {
			from = last // with the comma before it
		} else if after := space(object, to); after < len(object) && object[after] == ',' {
			to = space(object, after+1) // the comma behind it
		}
		if out == nil {
			out = make([]byte, 0, len(object))
		}
		if from > cut {
			out = append(out, object[cut:from]...)
		}
		cut = to
	}
	if !found {
		return object
	}
	return append(out, object[cut:]...)
}

// set is an object in which the member has the value: in the place where it stands, or
// as the first or the last. Of several with that name the last is set.
func set(object []byte, name string, value []byte, first bool) []byte {
	from, to, last := -1, -1, -1
	for w := members(object, 0); w.next(); {
		last = w.to
		if w.is(name) {
			from, to = w.from, w.to
		}
	}
	if from >= 0 {
		return slices.Concat(object[:from], value, object[to:])
	}
	member := slices.Concat([]byte{'"'}, []byte(name), []byte(`":`), value)
	open := space(object, 0) + 1
	switch {
	case open > len(object):
		return object
	case last < 0:
		return slices.Concat(object[:open], member, object[open:])
	case first:
		return slices.Concat(object[:open], member, []byte{','}, object[open:])
	}
	return slices.Concat(object[:last], []byte{','}, member, object[last:])
}
