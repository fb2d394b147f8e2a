package completion

import (
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// errNoObject: it is no object, or has a name twice.
var errNoObject = errors.New("completion: not one JSON object with each name once")

// Change lists the changes to a request on its way to a model.
type Change struct {
	// Model is the model's name there; empty: it stays.
	Model string
	// Usage adds stream_options.include_usage.
	Usage bool
	// Drop lists members that the provider does not receive.
	Drop []string
	// Previous replaces previous_response_id with the provider's own id; empty: the member stays.
	Previous string
}

// Request is a request with a change. Every byte of every other member stays as it is,
// numbers and the order of members too; stream_options keeps its other members. A name
// that stands twice is an error, because providers differ in which one they read; so is
// what is no JSON object.
func Request(body json.RawMessage, c Change) (json.RawMessage, error) {
	if k := jsontext.Value(body).Kind(); k != '{' || !jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return nil, errNoObject
	}
	var err error
	if c.Model != "" {
		if body, err = sjson.SetRawBytes(body, "model", quote(c.Model)); err != nil {
			return nil, err
		}
	}
	if c.Previous != "" {
		if body, err = sjson.SetRawBytes(body, previousID, quote(c.Previous)); err != nil {
			return nil, err
		}
	}
	for _, name := range c.Drop {
		body = Without(body, name)
	}
	switch {
	case !c.Usage:
	case Parse(body).Get("stream_options").IsObject():
		body, err = sjson.SetRawBytes(body, "stream_options.include_usage", []byte("true"))
	default:
		body, err = sjson.SetRawBytes(body, "stream_options", []byte(`{"include_usage":true}`))
	}
	return body, err
}

// Without is an object without the member of a name, which it has once at most; every byte
// of every other one stays as it is.
func Without(object json.RawMessage, name string) json.RawMessage {
	rest, err := sjson.DeleteBytes(object, ":"+gjson.Escape(name)) // the colon: it is no number
	if err != nil {
		return object
	}
	return rest
}
