//go:build e2e

package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/weirtest/history"
	"weir/schemas"
)

// party are a node's clients, and what they have heard.
type party struct {
	node   *node
	client *http.Client

	mu      sync.Mutex
	asked   []history.Asked
	watched []*history.Watched
	errs    []error
	wg      sync.WaitGroup
}

func newParty(n *node) *party {
	return &party{node: n, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (p *party) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// order is one thing that is to be done once.
type order struct {
	name, body string
}

// send asks for an order until its end is told, under the same name each time.
func (p *party) send(ctx context.Context, o order) {
	p.wg.Go(func() {
		for {
			a, err := p.ask(ctx, o)
			p.mu.Lock()
			p.asked = append(p.asked, a)
			p.mu.Unlock()
			if a.Outcome != "" {
				return
			}
			if err = errors.Join(err, pause(ctx)); ctx.Err() != nil {
				p.fail(fmt.Errorf("%s was never told its end: %w", o.name, err))
				return
			}
		}
	})
}

// ask is one request.
func (p *party) ask(ctx context.Context, o order) (history.Asked, error) {
	a := history.Asked{Tenant: tenant, Name: o.name, Answer: history.Unheard}
	base, err := p.node.base(ctx)
	if err != nil {
		return a, err
	}
	resp, body, err := p.do(ctx, http.MethodPost, base+"/v1/execute", o.body, "Content-Type", "application/json")
	if err != nil {
		return a, err
	}
	if resp.StatusCode == http.StatusServiceUnavailable { // whether it was stored is not said
		return a, fmt.Errorf("status 503: %s", body)
	}
	a.Status, a.ID = resp.StatusCode, resp.Header.Get("Weir-Action-Id")
	a.Answer = history.Accepted
	switch {
	case resp.StatusCode == http.StatusAccepted:
	case resp.StatusCode == http.StatusOK:
		var out schemas.ExecuteOutcome
		err = json.Unmarshal(body, &out)
		a.Outcome = schemas.OutcomeSucceeded
		if len(out.Body) > 0 && string(out.Body) != "null" {
			a.Digest = digest(out.Body)
		}
	case a.ID == "":
		a.Answer = history.Refused
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	default:
		var out schemas.ExecuteError
		err = json.Unmarshal(body, &out)
		a.Outcome = outcome(out.Error.Variant)
	}
	return a, err
}

// outcome is the end that an error of the executor tells.
func outcome(v schemas.Variant) schemas.Outcome {
	switch v {
	case schemas.VariantOutcomeUnknown:
		return schemas.OutcomeUnknown
	case schemas.VariantDisallowedHost:
		return schemas.OutcomeDenied
	case schemas.VariantExpired:
		return schemas.OutcomeExpired
	default:
		return schemas.OutcomeFailed
	}
}

// watch reads an action's events from the beginning until it is told that there are no
// more, going on behind the last one whenever its stream breaks. opened is called for
// the first event, once.
func (p *party) watch(ctx context.Context, id string, opened func()) {
	w := &history.Watched{Tenant: tenant, ID: id}
	p.mu.Lock()
	p.watched = append(p.watched, w)
	p.mu.Unlock()
	p.wg.Go(func() {
		for !w.Ended {
			err := p.read(ctx, w, opened)
			if err = errors.Join(err, pause(ctx)); ctx.Err() != nil {
				p.fail(fmt.Errorf("a reader of %s saw no end: %w", id, err))
				return
			}
		}
	})
}

// read is one stream, for as long as it lasts.
func (p *party) read(ctx context.Context, w *history.Watched, opened func()) error {
	base, err := p.node.base(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/actions/"+w.ID+"/events", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if n := len(w.IDs); n > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(w.IDs[n-1], 10))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNoContent:
		w.Ended = true
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	var data []byte
	for buf := make([]byte, 4096); ; {
		n, err := resp.Body.Read(buf)
		data = append(data, buf[:n]...)
		for {
			frame, rest, whole := bytes.Cut(data, []byte("\n\n"))
			if !whole {
				break
			}
			data = rest
			if id := eventID(string(frame)); id != 0 {
				w.IDs = append(w.IDs, id)
				if len(w.IDs) == 1 && opened != nil {
					opened()
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

func eventID(frame string) uint64 {
	for line := range strings.SplitSeq(frame, "\n") {
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			id, _ := strconv.ParseUint(text, 10, 64) // 0 is none
			return id
		}
	}
	return 0
}

func (p *party) do(ctx context.Context, method, url, body string, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, data, err
}

// pause keeps a client from asking in a hot loop.
func pause(ctx context.Context) error { return rest(ctx, 50*time.Millisecond) }

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
