package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

const (
	// consumerTimeout bounds one request that the handler passes on.
	consumerTimeout = 5 * time.Second
	// mostConsumers is how many consumers observers may have together. The server keeps a file and
	// some memory for each.
	mostConsumers = 32
	// mostMetadata is how many bytes the metadata of one may have, as JSON.
	mostMetadata = 1 << 10
	// consumerForgotten is when the server removes a durable consumer that is not used, unless its
	// creator says otherwise.
	consumerForgotten = 30 * 24 * time.Hour
)

// consumerHandler creates and removes consumers for observers. No permission can look into a request: a consumer that
// pushes to a subject of its creator's choice would write to the log. So the handler is between the
// accounts.
type consumerHandler struct {
	outside *nats.Conn // in the observers' account
	inside  *nats.Conn // in Weir's

	creating sync.Mutex // so that two requests do not both take the last place
}

func openConsumerHandler(s *Server) (g *consumerHandler, err error) {
	g = &consumerHandler{}
	if g.inside, err = s.Connect(nats.Name("weir consumers")); err == nil {
		g.outside, err = nats.Connect("", append(s.inside(s.access.gate), nats.Name("weir consumers"))...)
	}
	for subject, answer := range map[string]nats.MsgHandler{
		apiConsumerCreate: g.create, apiDurableCreate: g.create, apiEphemeralCreate: g.create, apiConsumerDelete: g.pass,
	} {
		if err == nil {
			_, err = g.outside.Subscribe(subject, answer)
		}
	}
	if err == nil {
		err = g.outside.FlushTimeout(consumerTimeout)
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("the handler of observers' consumers: %w", err)
	}
	return g, nil
}

func (g *consumerHandler) close() {
	for _, nc := range []*nats.Conn{g.outside, g.inside} {
		if nc != nil {
			nc.Close()
		}
	}
}

// creation is a request for a consumer.
type creation struct {
	Stream string                   `json:"stream_name"`
	Config jetstream.ConsumerConfig `json:"config"`
	Action string                   `json:"action,omitempty"`
}

// create passes on the decoded request, encoded anew: unknown and repeated members never reach the server.
func (g *consumerHandler) create(m *nats.Msg) {
	var req creation
	err := json.Unmarshal(m.Data, &req)
	if err == nil {
		err = req.admissible()
	}
	if req.Config.Durable != "" && req.Config.InactiveThreshold == 0 { // the server removes others in seconds
		req.Config.InactiveThreshold = consumerForgotten
	}
	g.creating.Lock()
	defer g.creating.Unlock()
	if err == nil {
		// $JS.API.CONSUMER.CREATE.STREAM.NAME: the server takes the name from there.
		name := cmp.Or(req.Config.Durable, req.Config.Name)
		if parts := strings.Split(m.Subject, "."); len(parts) > 5 && parts[3] == "CREATE" {
			name = parts[5]
		}
		err = g.checkCount(name)
	}
	if err != nil {
		body, _ := json.Marshal(map[string]any{ //nolint:errchkjson // it has texts and numbers
			"type":  "io.nats.jetstream.api.v1.consumer_create_response",
			"error": jetstream.APIError{Code: 403, ErrorCode: jetstream.JSErrCodeBadRequest, Description: err.Error()},
		})
		_ = m.Respond(body) // otherwise the observer's request times out, here and below
		return
	}
	if m.Data, err = json.Marshal(req); err == nil {
		g.pass(m)
	}
}

// pass has the server answer a request.
func (g *consumerHandler) pass(m *nats.Msg) {
	if answer, err := g.inside.Request(m.Subject, m.Data, consumerTimeout); err == nil {
		_ = m.Respond(answer.Data)
	}
}

// checkCount reports why there can be no more consumers. An existing one may be changed.
func (g *consumerHandler) checkCount(name string) error {
	var there struct {
		Consumers []string `json:"consumers"`
	}
	answer, err := g.inside.Request("$JS.API.CONSUMER.NAMES."+schemas.EvidenceStream, nil, consumerTimeout)
	if err != nil || json.Unmarshal(answer.Data, &there) != nil {
		return errors.New("the consumers cannot be counted; try again")
	}
	if n := len(there.Consumers); n >= mostConsumers && (name == "" || !slices.Contains(there.Consumers, name)) {
		return fmt.Errorf("observers have %d consumers and may have %d; delete one that is not used", n, mostConsumers)
	}
	return nil
}

// admissible reports why an observer may not have the consumer it asks for. The server compares the
// stream, and the name of a durable consumer, with those in the subject.
func (r creation) admissible() error {
	c := r.Config
	if c.DeliverSubject != "" || c.DeliverGroup != "" {
		return errors.New("observers have pull consumers only")
	}
	if doc, err := json.Marshal(c.Metadata); err != nil || len(doc) > mostMetadata {
		return fmt.Errorf("the metadata has %d bytes and may have %d; leave some out", len(doc), mostMetadata)
	}
	for _, f := range append(c.FilterSubjects, c.FilterSubject) {
		if f != "" && !strings.HasPrefix(f, schemas.EvidenceRoot+".") {
			return errors.New("the filter is not a subject of the evidence")
		}
	}
	return nil
}
