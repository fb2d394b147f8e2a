package demo

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"
)

// answered is an answer with its body read.
type answered struct {
	status int
	action string // Weir-Action-Id
	body   []byte
}

func (t *tour) post(ctx context.Context, path, body string) (answered, error) {
	resp, err := t.client.Do(ctx, http.MethodPost, path, nil, json.RawMessage(body))
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answered{status: resp.StatusCode, action: resp.Header.Get("Weir-Action-Id"), body: data}, err
}

// resume cuts the plan's stream after two events and comes back to it.
func (t *tour) resume(ctx context.Context) error {
	t.chapter("A stream, cut and resumed")
	first, err := t.stream(ctx, "", 2)
	if err != nil {
		return err
	}
	for _, e := range first {
		t.show("id: %-4s event: %s", e.LastEventID, e.Type)
	}
	last := first[len(first)-1].LastEventID
	t.show("-- the connection is cut; the client comes back with Last-Event-ID: %s --", last)
	rest, err := t.stream(ctx, last, 0)
	if err != nil {
		return err
	}
	for _, e := range rest {
		t.show("id: %-4s event: %s", e.LastEventID, e.Type)
	}
	whole, err := t.stream(ctx, "", 0)
	if err != nil {
		return err
	}
	if joined := slices.Concat(first, rest); !slices.Equal(joined, whole) {
		return mismatch("the events over the cut", whole, joined)
	}
	if end := whole[len(whole)-1]; end.Type != "settled" {
		return mismatch("the last event", "settled", end.Type)
	}
	t.claim("%d events before the cut and %d after it: together exactly the %d on the log, none lost, none twice", len(first), len(rest), len(whole))
	return nil
}

// stream reads the plan's events after an id: most of them, or with 0 all.
func (t *tour) stream(ctx context.Context, after string, most int) ([]sse.Event, error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	header := http.Header{}
	if after != "" {
		header.Set("Last-Event-ID", after)
	}
	resp, err := t.client.Do(ctx, http.MethodGet, "/v1/actions/"+t.planID+"/events", header, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, mismatch("the stream's status", http.StatusOK, resp.StatusCode)
	}
	var events []sse.Event
	for e, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
		if len(events) == most {
			break
		}
	}
	if len(events) == 0 {
		return nil, mismatch("events of the plan", "some", 0)
	}
	return events, nil
}

// shop is the local upstream of the tour. It counts each request before it answers, so that the tour can compare
// the reports of Weir with what arrived.
type shop struct {
	server *http.Server
	url    string

	mu   sync.Mutex
	seen map[string]int // requests by method and path
}

// openShop starts the shop on a loopback port.
func openShop(ctx context.Context) (*shop, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shop{url: "http://" + listener.Addr().String(), seen: map[string]int{}}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.server.Serve(listener) }() // ends with close
	return s, nil
}

func (s *shop) close() { _ = s.server.Close() }

// hits counts the requests that arrived for a path.
func (s *shop) hits(method, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[method+" "+path]
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	what := r.Method + " " + r.URL.Path
	s.seen[what]++
	first := s.seen[what] == 1
	s.mu.Unlock()
	status, doc := http.StatusOK, `{"item": "lamp", "cents": 1999}`
	switch what {
	case "POST /v1/orders":
		status, doc = http.StatusCreated, `{"order": 4711, "state": "taken"}`
	case "GET /v1/stock":
		if first {
			panic(http.ErrAbortHandler) // the connection drops without an answer, as networks do
		}
		doc = `{"item": "lamp", "left": 12}`
	case "GET /v1/price":
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, doc)
}
