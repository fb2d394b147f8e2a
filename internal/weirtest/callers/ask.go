package callers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

var (
	// ErrAway is an answer that says nothing but to come again.
	ErrAway = errors.New("not now")
	// errNowhere: nobody is there to ask.
	errNowhere = errors.New("nobody is there")
)

// Body is what is asked for by an order.
func (c *Callers) Body(o Order) string {
	args := map[string]any{"method": http.MethodPost, "url": c.cfg.Target.URL + "/plain/" + o.Name, "body": map[string]string{"of": o.Name, "pad": strings.Repeat("x", c.cfg.Pad)}}
	doc := map[string]any{"type": "Http", "request_id": o.Name, "args": args}
	switch o.Class {
	case Get:
		args["method"] = http.MethodGet
		delete(args, "body")
	case Put:
		args["method"] = http.MethodPut
	case Keyed:
		doc["idempotency_key"] = "key-of-" + o.Name
		args["url"] = c.cfg.Target.URL + "/keyed/" + o.Name
	case Denied:
		args["url"] = "http://elsewhere.invalid/" + o.Name
	}
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// Policy lets a crowd's calls through to its target, which honours keys below /keyed/.
func (t *Target) Policy() string {
	return fmt.Sprintf(`policy:
  timeout: 10s
  allowlist:
    - {name: plain, url_prefix: "%[1]s/plain/", methods: [GET, PUT, POST], network: loopback}
    - {name: keyed, url_prefix: "%[1]s/keyed/", methods: [POST], network: loopback, upstream_idempotency: {ttl: 1h}}
`, t.URL)
}

// Ask is one request for an order, at a place, written down with the others.
func (c *Callers) Ask(ctx context.Context, base string, o Order) (history.Asked, error) {
	a, err := c.askAt(ctx, base, o, o.Async)
	c.note(func() { c.asked = append(c.asked, a) })
	return a, err
}

func (c *Callers) ask(ctx context.Context, o Order, async bool) (history.Asked, error) {
	return c.askAt(ctx, c.cfg.Write(), o, async)
}

func (c *Callers) askAt(ctx context.Context, base string, o Order, async bool) (history.Asked, error) {
	a := history.Asked{Tenant: Tenant, Name: o.Name, Answer: history.Unheard}
	if base == "" {
		return a, errNowhere
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	var header []string
	if async {
		header = []string{"Prefer", "respond-async"}
	}
	got, err := program.Client{Base: base, HTTP: c.client}.Try(ctx, http.MethodPost, "/v1/execute", c.Body(o), header...)
	if err != nil {
		return a, err
	}
	return a, heard(&a, got)
}

// heard reads an answer.
func heard(a *history.Asked, got program.Answer) error {
	switch got.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests: // whether it was stored is not said
		if got.Header.Get("Retry-After") == "" {
			return fmt.Errorf("status %d without Retry-After: %s", got.Status, got.Body)
		}
		return fmt.Errorf("%w: status %d: %s", ErrAway, got.Status, got.Body)
	}
	a.Status, a.ID = got.Status, got.ID()
	a.Answer = history.Accepted
	switch {
	case got.Status == http.StatusAccepted:
		return nil
	case got.Status == http.StatusOK:
		var out schemas.ExecuteOutcome
		err := json.Unmarshal([]byte(got.Body), &out)
		a.Outcome = schemas.OutcomeSucceeded
		if len(out.Body) > 0 && string(out.Body) != "null" {
			a.Digest = digest(out.Body)
		}
		return err
	case a.ID == "":
		a.Answer = history.Refused
		return fmt.Errorf("status %d: %s", got.Status, got.Body)
	}
	var out schemas.ExecuteError
	err := json.Unmarshal([]byte(got.Body), &out)
	a.Outcome = outcome(out.Error.Variant)
	return err
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

// Watch reads an action's events from the beginning until it is told that there are no
// more, going on behind the last one, wherever it may, whenever its stream breaks. opened, if it
// is not nil, is called for the first event.
func (c *Callers) Watch(ctx context.Context, id string, opened func()) {
	w := &history.Watched{Tenant: Tenant, ID: id}
	c.note(func() { c.watched = append(c.watched, w) })
	c.wg.Go(func() {
		for !w.Ended {
			err := c.read(ctx, w, opened)
			if err = errors.Join(err, poll.Rest(ctx, pause)); ctx.Err() != nil {
				c.note(func() { c.errs = append(c.errs, fmt.Errorf("a reader of %s saw no end: %w", id, err)) })
				return
			}
		}
		c.note(func() { c.counts.Streams++ })
	})
}

// read is one stream, for as long as it lasts.
func (c *Callers) read(ctx context.Context, w *history.Watched, opened func()) error {
	base := c.cfg.Read()
	if base == "" {
		return errNowhere
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/actions/"+w.ID+"/events", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if n := len(w.IDs); n > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(w.IDs[n-1], 10))
	}
	resp, err := c.client.Do(req)
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
				if c.cfg.Event != nil {
					c.cfg.Event(w.ID, string(frame))
				}
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
