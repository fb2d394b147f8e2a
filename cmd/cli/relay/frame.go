package relay

import (
	"cmp"
	"encoding/json"

	"weir/client"
	"weir/cmd/cli/envelope"
	"weir/schemas"
)

// What the relay protocol calls an answer.
const (
	namespace = "modinet-agent-relay-v1"
	inward    = "extension-to-page"
)

// opPing asks whether the session is served. Only the relay has it.
const opPing = "bridge.ping"

// frame is one message of an agent.
type frame struct {
	envelope.Names
	// id addresses the answer: the id of the request, or else of the message. What else is wrong with a request, such
	// as a member that stands twice, the API refuses.
	id string
	// body is the request as the agent API takes it; nil where answer is set.
	body []byte
	// tokened: the request has a token of its own, be it a bad one.
	tokened bool
	// answer is sent without a request to the API.
	answer []byte
}

// read reads a message. ok is false where nothing can be answered: it has no id
// that an answer could name, or is an answer itself. Those are never answered, or
// two relays that hear each other would not stop.
func read(data []byte) (f frame, ok bool) {
	outer := envelope.Object(data)
	var direction string
	_ = json.Unmarshal(outer["direction"], &direction) // anything else is no direction
	_, answers := outer["response"]
	if outer == nil || answers || direction == inward {
		return f, false
	}
	raw, wrapped := outer["request"]
	inner := outer
	if wrapped {
		inner = envelope.Object(raw)
	} else {
		raw = data
	}
	own, around := envelope.NamesOf(inner), envelope.NamesOf(outer)
	if f.Names = own; inner == nil {
		f.Names = around
	}
	f.id = cmp.Or(own.RequestID, around.RequestID)
	token, has := inner["auth_token"]
	switch {
	case f.id == "":
		return f, false
	case inner == nil:
		f.answer = envelope.Refuse(f.Names, schemas.InvalidRequest, "", "request must be an object")
	case !wrapped && inner["operation"] == nil:
		f.answer = envelope.Refuse(f.Names, schemas.InvalidRequest, "", `a message is {"request":{"request_id":…,"operation":…,"args":…}}`)
	case f.Operation == opPing && f.RequestID != "":
		f.answer = envelope.Pong(f.Names)
	default:
		f.tokened = has && string(token) != "null"
		f.body = []byte(`{"type":"` + schemas.AgentAPIType + `","request":` + string(raw) + `}`)
	}
	return f, true
}

type reply struct {
	Namespace string          `json:"namespace"`
	Direction string          `json:"direction"`
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response"`
}

func wrap(id string, response []byte) ([]byte, error) {
	return client.Encode(reply{Namespace: namespace, Direction: inward, RequestID: id, Response: response})
}
