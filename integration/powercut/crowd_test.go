package powercut_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

	mu    sync.Mutex
	told  []told
	shown []shown
	names int
	lost  []order // nobody knows whether they were accepted
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
	return order{name: fmt.Sprintf("n%d", c.names), method: methods()[c.names%3], async: c.names%4 == 0}, true
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
	body := fmt.Sprintf(`{"type":"Http","request_id":%q,"args":{"method":%q,"url":"%s/%s"`, o.name, o.method, c.target.URL, o.name)
	if o.method != http.MethodGet {
		body += fmt.Sprintf(`,"body":{"name":%q}`, o.name)
	}
	header := ""
	if o.async {
		header = "respond-async"
	}
	resp, data, err := send(ctx, client, http.MethodPost, url+"/v1/execute", body+"}}", header)
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

// watch reads an action's events until the last, or until ctx ends.
func (c *crowd) watch(ctx context.Context, client *http.Client, url, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/actions/"+id+"/events", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
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
		c.mu.Unlock()
		if s.Type == schemas.EventSettled {
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
