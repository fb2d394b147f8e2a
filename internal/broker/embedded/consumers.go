package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// handlerPrefix precedes the subjects of observers' requests in Weir's account.
const handlerPrefix = "weir.consumers."

// consumerHandler creates and removes consumers for observers. No permission can look into a
// request: a consumer that pushes to a subject of its creator's choice would write to the log. So
// the handler is between the accounts. It handles one request at a time, so that two do not both take
// the last place.
type consumerHandler struct{ *nats.Conn }

func openConsumerHandler(s *Server) (*consumerHandler, error) {
	conn, err := s.Connect(nats.Name("weir consumers"))
	if err != nil {
		return nil, fmt.Errorf("the handler of observers' consumers: %w", err)
	}
	h := &consumerHandler{conn}
	if _, err = conn.Subscribe(handlerPrefix+">", h.answer); err == nil {
		err = conn.FlushTimeout(consumerTimeout)
	}
	return h, err
}

// answer has the server answer a request, or refuses it. Without an answer, the request times out.
func (h *consumerHandler) answer(m *nats.Msg) {
	m.Subject = strings.TrimPrefix(m.Subject, handlerPrefix)
	if err := h.admit(m); err != nil {
		body, _ := json.Marshal(map[string]any{ //nolint:errchkjson // it has texts and numbers
			"type":  "io.nats.jetstream.api.v1.consumer_create_response",
			"error": jetstream.APIError{Code: 403, ErrorCode: jetstream.JSErrCodeBadRequest, Description: err.Error()},
		})
		_ = m.Respond(body)
		return
	}
	if answer, err := h.Request(m.Subject, m.Data, consumerTimeout); err == nil {
		_ = m.Respond(answer.Data)
	}
}

// admit reports why an observer may not have the consumer it asks for, and encodes the request
// anew: unknown and repeated members never reach the server, which compares the stream, and the
// name of a durable consumer, with those in the subject. Any consumer may be removed.
func (h *consumerHandler) admit(m *nats.Msg) (err error) {
	// $JS.API.CONSUMER.CREATE.STREAM.NAME: the server takes the name from there.
	subject := strings.Split(m.Subject, ".")
	if subject[3] == "DELETE" {
		return nil
	}
	var req struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action,omitempty"`
	}
	if err := json.Unmarshal(m.Data, &req); err != nil {
		return err
	}
	c := &req.Config
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
	if c.Durable != "" && c.InactiveThreshold == 0 { // the server removes others in seconds
		c.InactiveThreshold = consumerForgotten
	}
	name := cmp.Or(c.Durable, c.Name)
	if len(subject) > 5 && subject[3] == "CREATE" {
		name = subject[5]
	}
	if err := h.checkCount(name); err != nil {
		return err
	}
	m.Data, err = json.Marshal(req)
	return err
}

// checkCount reports why there can be no more consumers. An existing one may be changed.
func (h *consumerHandler) checkCount(name string) error {
	var there struct {
		Consumers []string `json:"consumers"`
	}
	answer, err := h.Request("$JS.API.CONSUMER.NAMES."+schemas.EvidenceStream, nil, consumerTimeout)
	if err != nil || json.Unmarshal(answer.Data, &there) != nil {
		return errors.New("the consumers cannot be counted; try again")
	}
	if n := len(there.Consumers); n >= mostConsumers && (name == "" || !slices.Contains(there.Consumers, name)) {
		return fmt.Errorf("observers have %d consumers and may have %d; delete one that is not used", n, mostConsumers)
	}
	return nil
}
