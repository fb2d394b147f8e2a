//go:build nightly

package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/schemas"
)

// teller is a remote agent whose runs tell of themselves in so many events, one every pace,
// once its gate is open. Each event has the time at which it was written, and its turn.
type teller struct {
	server *httptest.Server

	mu   sync.Mutex
	gate chan struct{}
}

// tale is what a run of the teller is asked for.
type tale struct {
	Events int           `json:"events"`
	Pace   time.Duration `json:"pace"`
}

func newTeller(tb testing.TB) *teller {
	tb.Helper()
	a := &teller{gate: make(chan struct{})}
	a.server = httptest.NewServer(a)
	tb.Cleanup(func() {
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// hold has runs that begin from now on wait for what it returns to be called.
func (a *teller) hold() (open func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gate := make(chan struct{})
	a.gate = gate
	return func() { close(gate) }
}

// ServeHTTP is one run.
func (a *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var run struct {
		schemas.RunRequest
		Inputs tale `json:"inputs"`
	}
	data, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(data, &run) != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	a.mu.Lock()
	gate := a.gate
	a.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	fmt.Fprintf(w, "event: started\ndata: {\"request_id\":%q}\n\n", run.RequestID)
	_ = out.Flush()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	tick := time.NewTicker(max(run.Inputs.Pace, 1))
	defer tick.Stop()
	for i := range run.Inputs.Events {
		if run.Inputs.Pace > 0 {
			<-tick.C
		}
		fmt.Fprintf(w, "event: progress\ndata: {\"sent\":%d,\"turn\":%d,\"text\":\"a token or two\"}\n\n", time.Now().UnixNano(), i)
		if out.Flush() != nil {
			return
		}
	}
	fmt.Fprintf(w, "event: complete\ndata: {\"type\":\"final\",\"request_id\":%q,\"task_type\":%q,\"status\":\"ok\",\"success\":true,\"outputs\":{}}\n\n",
		run.RequestID, run.TaskType)
}

// told reads one of its events.
func told(data []byte) (sent time.Time, turn int, ok bool) {
	at, ok1 := digits(data, `"sent":`)
	n, ok2 := digits(data, `"turn":`)
	return time.Unix(0, int64(at)), n, ok1 && ok2
}

// digits is the number behind a mark.
func digits(data []byte, mark string) (n int, ok bool) {
	_, rest, ok := bytes.Cut(data, []byte(mark))
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(rest[:end]))
	return n, ok && err == nil
}
