package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// gateTimeout bounds one request that the gate passes on.
const gateTimeout = 5 * time.Second

// gate answers observers that ask for a consumer. It stands between the
// accounts because no permission can look into a request: a consumer that
// pushes to a subject of its creator's choice would write to the log.
type gate struct {
	outside *nats.Conn // in the observers' account
	inside  *nats.Conn // in Weir's
}

func openGate(s *Server) (_ *gate, err error) {
	g := &gate{}
	defer func() {
		if err != nil {
			g.close()
			err = fmt.Errorf("the observers' gate: %w", err)
		}
	}()
	if g.inside, err = s.Connect(nats.Name("weir gate")); err != nil {
		return nil, err
	}
	if g.outside, err = nats.Connect("", append(s.inside(s.access.gate), nats.Name("weir gate"))...); err != nil {
		return nil, err
	}
	for _, subject := range []string{apiConsumerCreate, apiDurableCreate, apiEphemeralCreate} {
		if _, err = g.outside.Subscribe(subject, g.create); err != nil {
			return nil, err
		}
	}
	return g, g.outside.FlushTimeout(gateTimeout)
}

func (g *gate) close() {
	for _, nc := range []*nats.Conn{g.outside, g.inside} {
		if nc != nil {
			nc.Close()
		}
	}
}

// refusal is a JetStream API answer that a client shows as an error.
type refusal struct {
	Type  string             `json:"type"`
	Error jetstream.APIError `json:"error"`
}

// creation is a request for a consumer.
type creation struct {
	Stream string                   `json:"stream_name"`
	Config jetstream.ConsumerConfig `json:"config"`
	Action string                   `json:"action,omitempty"`
}

// create passes on what it has read, encoded anew: a member that it does not
// know, or one written twice, never reaches the other side.
func (g *gate) create(m *nats.Msg) {
	var req creation
	err := json.Unmarshal(m.Data, &req)
	if err == nil {
		err = req.admissible(m.Subject)
	}
	if err != nil {
		body, err := json.Marshal(refusal{
			Type:  "io.nats.jetstream.api.v1.consumer_create_response",
			Error: jetstream.APIError{Code: 403, ErrorCode: jetstream.JSErrCodeBadRequest, Description: err.Error()},
		})
		if err == nil {
			_ = m.Respond(body) // an observer that went away asks again
		}
		return
	}
	data, err := json.Marshal(req)
	if err != nil {
		return // the observer's own time runs out, here and below
	}
	if answer, err := g.inside.Request(m.Subject, data, gateTimeout); err == nil {
		_ = m.Respond(answer.Data)
	}
}

// admissible reports why an observer may not have the consumer it asks for.
func (r creation) admissible(subject string) error {
	c := r.Config
	switch {
	case r.Stream != schemas.EvidenceStream:
		return fmt.Errorf("observers have consumers on %s only", schemas.EvidenceStream)
	case c.DeliverSubject != "" || c.DeliverGroup != "":
		return errors.New("observers have pull consumers only")
	case c.Durable == "" && c.Name == "" && subject != apiEphemeralCreate:
		return errors.New("the consumer has no name")
	}
	for _, f := range append(c.FilterSubjects, c.FilterSubject) {
		if f != "" && !strings.HasPrefix(f, schemas.EvidenceRoot+".") {
			return errors.New("the filter is not a subject of the evidence")
		}
	}
	return nil
}
