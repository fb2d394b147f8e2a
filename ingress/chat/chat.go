// Package chat takes the requests for models' answers, in every dialect: their bodies become orders of
// kind chat. It performs nothing.
package chat

import (
	stdjson "encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"weir/ingress/strict"
	"weir/internal/completion"
	"weir/internal/fault"
	"weir/schemas"
)

// Read reads a body of a dialect that strict.Check has passed. Members that would choose where the
// request goes, with which key, or whom the provider calls back are refused wherever they
// stand outside of the conversation itself. Other members beyond completion.Known stay in
// it and are returned: the order's Further are their names. Its errors are *fault.Error with VALIDATION_ERROR, or
// INVALID_REQUEST for a body that is no object, or a *problem.Error with a more specific code, and show no value
// of the body.
func Read(d schemas.Dialect, body []byte) (schemas.ChatOrder, []Further, error) {
	if strict.Kind(body) != '{' {
		return schemas.ChatOrder{}, nil, fault.New(schemas.InvalidRequest, "the body must be a JSON object")
	}
	doc, err := read(body)
	looked := search{dialect: d, seen: map[string]struct{}{}}
	if err == nil {
		err = misdirected(d, doc)
	}
	if err == nil {
		err = looked.value(completion.Parse(body), top, false)
	}
	if err != nil {
		return schemas.ChatOrder{}, nil, err
	}
	o := schemas.ChatOrder{Dialect: d, Body: doc.rest, Choices: 1}
	if d == schemas.DialectChat {
		o.Dialect = "" // as it is stored
	}
	for _, step := range steps(d) {
		if err := step(&o, doc); err != nil {
			return schemas.ChatOrder{}, nil, err
		}
	}
	size := completion.Prompt(o.Dialect, o.Body)
	o.Prompt, o.Images, o.Media = size.Bytes, size.Images, size.Media
	for _, f := range looked.further {
		o.Further = append(o.Further, f.Name)
	}
	return o, looked.further, nil
}

// steps read the members of a dialect's requests that Weir reads.
func steps(d schemas.Dialect) []func(*schemas.ChatOrder, document) error {
	type step = func(*schemas.ChatOrder, document) error
	switch d {
	case schemas.DialectResponses:
		return []step{named, continued, given, sized, streamed}
	case schemas.DialectMessages:
		return []step{named, said, bounded, streamed}
	case schemas.DialectCount:
		return []step{named, said}
	case schemas.DialectEmbeddings:
		return []step{named, embedded}
	default:
		return []step{named, said, sized, streamed}
	}
}

// pointer returns the JSON pointer with these names and numbers.
func pointer(tokens ...string) string {
	var p jsontext.Pointer
	for _, token := range tokens {
		p = p.AppendToken(token)
	}
	return string(p)
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
	memberInput     = "input"
	memberPrevious  = "previous_response_id"
	memberWaits     = "background"
	memberPrompt    = "prompt"
	memberTalk      = "conversation"
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
	values map[string]gjson.Result
	// rest is the body without models, every other byte as it came.
	rest stdjson.RawMessage
}

// absent reports whether a member is not there, or null.
func (d document) absent(name string) bool { return d.values[name].Type == gjson.Null }

// maxMembers is how many members a body may have of its own; no provider knows half as
// many.
const maxMembers = 500

// read finds the members that Weir reads. A name that a provider could read as one
// of them is refused: the request would then exceed its reservation.
func read(body []byte) (document, error) {
	doc := document{values: map[string]gjson.Result{}, rest: body}
	n := 0
	for name, v := range completion.Parse(body).All() {
		if n++; n > maxMembers {
			return doc, fault.New(schemas.ValidationError, "the request has more than "+strconv.Itoa(maxMembers)+" members of its own; leave out those that no model reads")
		}
		is := spelled[completion.Fold(name.Str)]
		if is != "" && is != name.Str {
			return doc, refuse(pointer(name.Str), "names are read as they are spelled; this one is '"+is+"'")
		}
		if is != "" {
			doc.values[is] = v
		}
	}
	if _, there := doc.values[memberModels]; there {
		doc.rest = completion.Without(body, memberModels)
	}
	return doc, nil
}

// spelled are the members that Weir reads, by their folded names.
var spelled = func() map[string]string { //nolint:gochecknoglobals // a constant
	all := map[string]string{}
	for _, name := range []string{
		memberModel, memberModels, memberMessages, memberInput, memberPrevious, memberWaits, memberPrompt, memberTalk,
		memberStream, memberOptions, memberN, memberBestOf, memberMax, memberMaxAnswer, memberMaxOutput,
	} {
		all[completion.Fold(name)] = name
	}
	return all
}()
