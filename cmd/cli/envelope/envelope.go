// Package envelope reads and words the agent API's documents for the ways to it
// that are not HTTP: a relay, and NATS. What a request asks for is checked at the
// server alone; here no more is read of it than what an answer must repeat.
package envelope

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"weir/client"
	"weir/schemas"
)

// Names are what an answer repeats of its request, unless it is above maxName. Either may be empty.
type Names struct{ RequestID, Operation string }

// maxName is how long a name may be that is repeated, in bytes: with a longer one an answer might
// not fit where its request did.
const maxName = 256

// Object reads the members of a JSON object, by exactly their names; nil for
// anything else. Of a name that stands twice it has the last.
func Object(doc []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if !utf8.Valid(doc) || json.Unmarshal(doc, &members) != nil {
		return nil
	}
	return members
}

// NamesOf reads the names of a request, as far as they can be read.
func NamesOf(request map[string]json.RawMessage) Names {
	return Names{RequestID: text(request["request_id"]), Operation: text(request["operation"])}
}

// text is a string, or nothing.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// Find is the request of a document: its member of that name, or the document
// itself.
func Find(doc []byte) map[string]json.RawMessage {
	members := Object(doc)
	if inner, ok := members["request"]; ok {
		return Object(inner)
	}
	return members
}

// Refuse is the answer that something went wrong.
func Refuse(n Names, code schemas.Code, detail, message string) []byte {
	return encode(schemas.AgentResponse{
		RequestID: n.RequestID, Operation: n.Operation,
		Error: &schemas.AgentError{Code: code, Message: message, Detail: detail},
	})
}

// Unavailable is the answer if the API sent none. The operation may have run; a repeat under the
// same request_id does not run it twice.
func Unavailable(n Names, message string) []byte {
	return Refuse(n, schemas.InternalError, string(schemas.Unavailable), message)
}

// Pong is the answer to a ping.
func Pong(n Names) []byte {
	return encode(schemas.AgentResponse{OK: true, RequestID: n.RequestID, Operation: n.Operation, Data: json.RawMessage(schemas.AgentPong)})
}

func encode(r schemas.AgentResponse) []byte {
	for _, name := range []*string{&r.RequestID, &r.Operation} {
		if len(*name) > maxName {
			*name = ""
		}
	}
	doc, err := client.Encode(r)
	if err != nil {
		panic("envelope: strings that cannot be encoded") // there is no such string
	}
	return doc
}

// Result is ok, or the code of the error in an answer. It is empty if the document is no answer
// of the agent API.
func Result(doc []byte) string {
	members := Object(doc)
	switch {
	case bytes.Equal(members["ok"], []byte("true")):
		return "ok"
	case !bytes.Equal(members["ok"], []byte("false")):
		return ""
	}
	return text(Object(members["error"])["code"])
}
