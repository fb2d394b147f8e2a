//go:build nightly

package powercut_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

const (
	tenant  = "default"
	clients = 16
	// settling bounds how long actions take that were in flight at the last cut: the
	// broker holds their messages back for its acknowledgement wait.
	settling = 60 * time.Second
)

// shown is one event as a watcher saw it.
type shown struct {
	id  string
	cut int
	schemas.EventView
}

// crowd is the clients and what they were told, over all lives of the program.
type crowd struct {
	target *target
	cut    int // how many there were

	mu       sync.Mutex
	told     []told
	shown    []shown
	readings map[string]*reading // by action
	names    int
	lost     []order // nobody knows whether they were accepted
}

// reading is what one reader got of an action that it went on with behind each cut, by
// the id of the last event that it had.
type reading struct {
	seqs  []uint64
	ended bool
}

// place is behind what a reader resumes.
func (r *reading) place() uint64 {
	if len(r.seqs) == 0 {
		return 0
	}
	return r.seqs[len(r.seqs)-1]
}

// told is one answer, and after how many cuts it came.
type told struct {
	history.Asked
	cut int
}

// order is what a client wants, under the same name for ever.
type order struct {
	name, method string
	async        bool
	// run is a run with much progress in the place of a call: events that are shown
	// before they are on the disk.
	run bool
}

// body is the request.
func (o order) body(upstream string) (path, body string) {
	if o.run {
		return schemas.RouteRunSync, fmt.Sprintf(`{"request_id":%q,"task_type":%q,"inputs":{"steps":150,"interval_ms":2}}`, o.name, schemas.TaskEcho)
	}
	body = fmt.Sprintf(`{"type":"Http","request_id":%q,"args":{"method":%q,"url":"%s/%s"`, o.name, o.method, upstream, o.name)
	if o.method != http.MethodGet {
		body += fmt.Sprintf(`,"body":{"name":%q}`, o.name)
	}
	return "/v1/execute", body + "}}"
}

// methods are the classes: safe, idempotent, once.
func methods() []string { return []string{http.MethodGet, http.MethodPut, http.MethodPost} }

// next is what a client asks for: what was not heard of first, then something new.
func (c *crowd) next(fresh bool) (order, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.lost); n > 0 {
		o := c.lost[0]
		c.lost = c.lost[1:]
		return o, true
	}
	if !fresh {
		return order{}, false
	}
	c.names++
	run := c.names%8 == 1
	return order{name: fmt.Sprintf("n%d", c.names), method: methods()[c.names%3], async: run || c.names%4 == 0, run: run}, true
}

// press has so many clients work until ctx ends. Without fresh they only ask again for
// what was not heard of, and end when all of it was.
func (c *crowd) press(ctx context.Context, url string, clients int, fresh bool) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				o, more := c.next(fresh)
				if !more {
					return
				}
				c.ask(ctx, client, url, o)
			}
		})
	}
	group.Wait()
}

// ask makes one request and writes down what came of it.
func (c *crowd) ask(ctx context.Context, client *http.Client, url string, o order) {
	a := told{Asked: history.Asked{Tenant: tenant, Name: o.name, Answer: history.Unheard}, cut: c.cut}
	path, body := o.body(c.target.URL)
	header := ""
	if o.async {
		header = "respond-async"
	}
	resp, data, err := send(ctx, client, http.MethodPost, url+path, body, header)
	if err == nil {
		a.heard(resp, data)
	}
	c.mu.Lock()
	c.told = append(c.told, a)
	if a.Answer == history.Unheard {
		c.lost = append(c.lost, o)
	}
	c.mu.Unlock()
	if a.Answer == history.Accepted && o.async {
		_ = c.watch(ctx, client, url, o.name)
	}
}

// heard reads an answer. One that refuses for now has told nothing.
func (a *told) heard(resp *http.Response, data []byte) {
	a.ID, a.Status = resp.Header.Get("Weir-Action-Id"), resp.StatusCode
	switch {
	case a.ID == "" || resp.StatusCode == http.StatusServiceUnavailable:
		return
	case resp.StatusCode == http.StatusOK:
		a.Answer, a.Outcome = history.Accepted, schemas.OutcomeSucceeded
		var v struct {
			Body json.RawMessage `json:"body"`
		}
		if json.Unmarshal(data, &v) == nil {
			a.Digest = digest(v.Body)
		}
	case resp.StatusCode == http.StatusAccepted:
		a.Answer = history.Accepted
	case bytes.Contains(data, []byte("OutcomeUnknown")):
		a.Answer, a.Outcome = history.Accepted, schemas.OutcomeUnknown
	default:
		a.Answer, a.Outcome = history.Accepted, schemas.OutcomeFailed
	}
}

// reading is the one of an action.
func (c *crowd) reading(id string) *reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readings == nil {
		c.readings = map[string]*reading{}
	}
	if c.readings[id] == nil {
		c.readings[id] = &reading{}
	}
	return c.readings[id]
}

// watch reads an action's events, from where it was read to before, until the last, or
// until ctx ends. Nobody else reads the action meanwhile.
func (c *crowd) watch(ctx context.Context, client *http.Client, url, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/actions/"+id+"/events", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	read := c.reading(id)
	if at := read.place(); at > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(at, 10))
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		s := shown{id: id, cut: c.cut}
		if err := json.Unmarshal([]byte(data), &s.EventView); err != nil {
			return err
		}
		c.mu.Lock()
		c.shown = append(c.shown, s)
		read.seqs = append(read.seqs, s.Seq)
		c.mu.Unlock()
		if s.Type == schemas.EventSettled {
			read.ended = true
			return nil
		}
	}
	return fmt.Errorf("the events of %s end before its end (%d)", id, resp.StatusCode)
}

// ids are the actions that somebody was told of.
func (c *crowd) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	var ids []string
	for _, a := range c.told {
		if a.Answer == history.Accepted && !seen[a.ID] {
			seen[a.ID] = true
			ids = append(ids, a.ID)
		}
	}
	return ids
}

func send(ctx context.Context, client *http.Client, method, url, body, prefer string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if prefer != "" {
		req.Header.Set("Prefer", prefer)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, data, err
}

// settle asks again for all that was not heard of, and waits for the end of everything.
// What has none when ctx ends, the judge finds on the log.
func (c *crowd) settle(ctx context.Context, url string) {
	c.press(ctx, url, clients, false)
	ids := c.ids()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	next := make(chan string, len(ids))
	for _, id := range ids {
		next <- id
	}
	close(next)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for id := range next {
				_ = c.watch(ctx, client, url, id)
			}
		})
	}
	group.Wait()
}
