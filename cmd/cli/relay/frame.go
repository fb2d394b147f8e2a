package relay

import (
	"cmp"
	"encoding/json"
	"errors"

	"weir/client"
	"weir/cmd/cli/envelope"
	"weir/ingress/strict"
	"weir/internal/fault"
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
	// id addresses the answer: the id of the request, or else of the message. The API may refuse it.
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
	f.Names = envelope.NamesOf(inner)
	if inner == nil {
		f.Names = envelope.NamesOf(outer)
	}
	if f.id = cmp.Or(envelope.IDOf(inner), envelope.IDOf(outer)); f.id == "" {
		return f, false
	}
	if err := check(data, inner, wrapped); err != nil {
		f.answer = envelope.Refuse(f.Names, schemas.InvalidRequest, "", message(err))
		return f, true
	}
	if f.Operation == opPing && f.RequestID != "" {
		f.answer = envelope.Pong(f.Names)
		return f, true
	}
	token, ok := inner["auth_token"]
	f.tokened = ok && !strict.Absent(token)
	f.body = []byte(`{"type":"` + schemas.AgentAPIType + `","request":` + string(raw) + `}`)
	return f, true
}

// check refuses what two readers could read differently: that the request has a
// token of its own must mean the same here and at the server.
func check(data []byte, request map[string]json.RawMessage, wrapped bool) error {
	if err := strict.Check(data, strict.Limits{}); err != nil {
		return err
	}
	if request == nil {
		return fault.New(schemas.InvalidRequest, "request must be an object")
	}
	if _, ok := request["operation"]; !ok && !wrapped {
		return fault.New(schemas.InvalidRequest, `a message is {"request":{"request_id":…,"operation":…,"args":…}}`)
	}
	return nil
}

func message(err error) string {
	if public, ok := errors.AsType[*fault.Error](err); ok {
		return public.Message
	}
	return "the message cannot be read"
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
