package chat

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"weir/internal/problem"
	"weir/schemas"
)

// misdirected refuses a body whose conversation is where another dialect has it.
func misdirected(d schemas.Dialect, doc document) error {
	hasInput, hasMessages := !doc.absent(memberInput), !doc.absent(memberMessages)
	const (
		input    = "send this body to POST " + schemas.RouteResponses + ", or write the conversation as messages"
		messages = "send this body to POST " + schemas.RouteChat + " or POST " + schemas.RouteMessages + ", or write "
	)
	switch {
	case hasInput && hasMessages:
	case hasInput && (d == schemas.DialectChat || d.Family() == schemas.DialectMessages):
		return refuse("/"+memberInput, "is the conversation of another protocol; "+input)
	case hasMessages && d == schemas.DialectResponses:
		return refuse("/"+memberMessages, "is the conversation of another protocol; "+messages+"the conversation as input")
	case hasMessages && d == schemas.DialectEmbeddings:
		return refuse("/"+memberMessages, "is the conversation of another protocol; "+messages+"the texts as input")
	}
	return nil
}

// given checks the input of a response.
func given(o *schemas.ChatOrder, doc document) error {
	input := doc.values[memberInput]
	switch {
	case doc.absent(memberInput):
		if o.Previous == "" && doc.absent(memberPrompt) && doc.absent(memberTalk) {
			return refuse("/"+memberInput, "is missing; write a text, or a list of messages and other items")
		}
		return nil
	case input.Type == gjson.String:
		return nil
	case !input.IsArray():
		return refuse("/"+memberInput, "must be a string or an array of items")
	}
	for at, item := range input.All() {
		if !item.IsObject() {
			return refuse("/"+memberInput+"/"+at.String(), "must be an object, such as a message with role and content")
		}
	}
	return nil
}

// continued reads which response the request continues, and whether its caller waits for it.
func continued(o *schemas.ChatOrder, doc document) error {
	var err error
	if o.Background, err = flag(doc.values[memberWaits], "/"+memberWaits); err != nil || doc.absent(memberPrevious) {
		return err
	}
	id, ok := schemas.ResponseAction(strings.Clone(doc.values[memberPrevious].Str))
	if !ok || !schemas.ValidActionID(id) {
		return errNoPrevious("is not the id of a response; write the id of a response of this server, or leave it out and send the whole conversation")
	}
	o.Previous = id
	return nil
}

// errNoPrevious refuses previous_response_id in the words by which clients of the protocol know it.
func errNoPrevious(why string) error {
	return &problem.Error{
		Problem: schemas.Problem{Code: schemas.ValidationError, Status: http.StatusBadRequest, Detail: "at /" + memberPrevious + ": " + why},
		Word:    "previous_response_not_found",
	}
}

// embedded checks the input of an embedding.
func embedded(_ *schemas.ChatOrder, doc document) error {
	input := doc.values[memberInput]
	switch {
	case doc.absent(memberInput):
		return refuse("/"+memberInput, "is missing; write a text, or a list of texts")
	case input.Type == gjson.String && input.Str != "", input.IsArray() && input.Get("0").Exists():
		return nil
	default:
		return refuse("/"+memberInput, "must be a string or an array that is not empty")
	}
}
