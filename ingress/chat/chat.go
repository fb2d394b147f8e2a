// Package chat translates the bodies of the chat surface to completions. It performs
// nothing and knows no HTTP.
package chat

import (
	stdjson "encoding/json"
	"strings"

	"weir/ingress/strict"
	"weir/internal/completion"
	"weir/internal/fault"
	"weir/schemas"
)

// Read reads a body that strict.Check has passed. Members that would choose where the
// request goes, with which key, or whom the provider calls back are refused wherever they
// stand outside of the conversation itself. Other members beyond completion.Known stay in
// it and are returned: the order's Further are their names. Its errors are *fault.Error with VALIDATION_ERROR, or
// INVALID_REQUEST for a body that is no object, and show no value of the body.
func Read(body []byte) (schemas.ChatOrder, []Further, error) {
	if strict.Kind(body) != '{' {
		return schemas.ChatOrder{}, nil, fault.New(schemas.InvalidRequest, "the body must be a JSON object")
	}
	doc, err := read(body)
	looked := newSearch(body)
	if err == nil {
		err = looked.value(top, false)
	}
	if err != nil {
		return schemas.ChatOrder{}, nil, err
	}
	o := schemas.ChatOrder{Body: doc.rest}
	for _, step := range []func(*schemas.ChatOrder, document) error{named, said, sized, streamed} {
		if err := step(&o, doc); err != nil {
			return schemas.ChatOrder{}, nil, err
		}
	}
	size := completion.Prompt(o.Body)
	o.Prompt, o.Images, o.Media = size.Bytes, size.Images, size.Media
	for _, f := range looked.further {
		o.Further = append(o.Further, f.Name)
	}
	return o, looked.further, nil
}

// maxPointer bounds how much of a pointer is shown: names come from the caller.
const maxPointer = 200

func refuse(pointer, what string) error {
	if len(pointer) > maxPointer {
		pointer = strings.ToValidUTF8(pointer[:maxPointer], "") + "…"
	}
	return fault.New(schemas.ValidationError, "at "+pointer+": "+what)
}

// The members that Weir reads itself.
const (
	memberModel     = "model"
	memberModels    = "models"
	memberMessages  = "messages"
	memberStream    = "stream"
	memberOptions   = "stream_options"
	memberN         = "n"
	memberBestOf    = "best_of"
	memberMax       = "max_tokens"
	memberMaxAnswer = "max_completion_tokens"
	memberMaxOutput = "max_output_tokens"
)

// document is a body with the values of the members that Weir reads.
type document struct {
	values map[string][]byte
	// rest is the body without models, every other byte as it came.
	rest stdjson.RawMessage
}

func (d document) absent(name string) bool { return strict.Absent(d.values[name]) }
