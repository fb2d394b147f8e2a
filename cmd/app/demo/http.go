package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

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
	joined := slices.Concat(first, rest)
	if len(joined) != len(whole) {
		return mismatch("events over the cut", len(whole), len(joined))
	}
	for i := range whole {
		if joined[i] != whole[i] {
			return mismatch(fmt.Sprintf("event %d over the cut", i+1), whole[i].LastEventID, joined[i].LastEventID)
		}
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
