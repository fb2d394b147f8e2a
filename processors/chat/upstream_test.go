package chat_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/processors/guard"
	"weir/schemas"
)

// act is what an upstream does with one call.
type act struct {
	open   *fault.Call   // nothing is sent
	texts  []string      // of the chunks
	every  time.Duration // how long each chunk takes
	wait   time.Duration // before the first
	hang   bool          // after the chunks nothing comes
	fails  *fault.Call   // how it breaks off
	status int           // default 200
	fault  *model.Fault
	after  time.Duration // Retry-After
	usage  *schemas.ChatUsage
	silent bool     // there is no usage
	then   func()   // runs behind the chunks
	first  func()   // runs before the first
	raw    []string // further chunks
	counts bool     // it streams what is not asked for as a stream
}

// asked is a call as an upstream saw it.
type asked struct {
	upstream string
	body     string
	accept   string
	talk     model.Talk
}

// world are the upstreams that a test's models have. It is an adapter that opens no
// socket.
type world struct {
	mu    sync.Mutex
	acts  map[string][]act // by upstream; the last one stays
	calls []asked

	chunks int
}

func (w *world) For(t model.Talk) call.Adapter { return voice{w, t} }

func (w *world) take(upstream string) act {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.acts[upstream]
	if len(list) == 0 {
		return act{texts: []string{"Hel", "lo"}}
	}
	if len(list) > 1 {
		w.acts[upstream] = list[1:]
	}
	return list[0]
}

// asked are the upstreams that were sent something, in order.
func (w *world) asked() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		list = append(list, c.upstream)
	}
	return list
}

func (w *world) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chunks++
}

// taken is how many chunks were given, the one that waits to be taken among them.
func (w *world) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chunks
}

type voice struct {
	*world
	talk model.Talk
}

func (v voice) Open(_ context.Context, p guard.Pass) (call.Exchange, error) {
	upstream := strings.TrimPrefix(p.Decision().Entry, schemas.ModelEntryPrefix)
	a := v.take(upstream)
	if a.open != nil {
		return nil, a.open
	}
	return &exchange{voice: v, act: a, upstream: upstream, pass: p, begun: make(chan struct{})}, nil
}

type exchange struct {
	voice
	act      act
	upstream string
	pass     guard.Pass
	once     sync.Once
	begun    chan struct{}
	given    bool
	whole    completion.Assembler
}

func (e *exchange) Renew(guard.Pass) error { return nil }
func (e *exchange) Begun() <-chan struct{} { return e.begun }
func (e *exchange) Close()                 { e.once.Do(func() { close(e.begun) }) }

// text is a text as JSON.
func text(s string) string {
	doc, err := ledger.Encode(s)
	if err != nil {
		panic(err)
	}
	return string(doc)
}

// chunk is an event of an answer's stream.
func chunk(said string) string {
	return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"real","choices":[{"index":0,"delta":{"content":` + text(said) + `},"finish_reason":null}]}`
}

const last = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"real","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

func (e *exchange) Do(ctx context.Context) (call.Reply, error) {
	e.Close()
	c := e.pass.Call()
	seen := asked{upstream: e.upstream, body: string(c.Body), talk: e.talk}
	for _, h := range c.Headers {
		if h.Name == "accept" {
			seen.accept = h.Value
		}
	}
	e.mu.Lock()
	e.calls = append(e.calls, seen)
	e.mu.Unlock()
	reply, err := e.answer(ctx)
	if e.given {
		if lost := e.talk.Done(ctx); lost != nil {
			reply, err = call.Reply{}, lost
		}
	}
	if used := e.whole.Spent(); err != nil && used != nil {
		e.talk.Broke(used)
	}
	return reply, err
}

func (e *exchange) answer(ctx context.Context) (call.Reply, error) {
	a := e.act
	if err := rest(ctx, a.wait); err != nil {
		return call.Reply{}, err
	}
	if a.first != nil {
		a.first()
	}
	whole := &e.whole
	give := func(raw string) error {
		c, err := completion.ReadChunk([]byte(raw))
		if err != nil {
			return err
		}
		whole.Add(c)
		if !e.talk.Stream {
			if !a.counts {
				return nil
			}
			return e.talk.Chunk(ctx, model.Piece{Output: whole.Output()})
		}
		if c.Blank && !e.talk.Usage {
			return e.talk.Chunk(ctx, model.Piece{Output: whole.Output()})
		}
		e.given = true
		e.count()
		return e.talk.Chunk(ctx, model.Piece{Raw: c.Raw, Output: whole.Output()})
	}
	for _, said := range a.texts {
		if err := rest(ctx, a.every); err != nil {
			return call.Reply{}, err
		}
		if err := give(chunk(said)); err != nil {
			return call.Reply{}, err
		}
	}
	for _, raw := range a.raw {
		if err := give(raw); err != nil {
			return call.Reply{}, err
		}
	}
	if a.then != nil {
		a.then()
	}
	if a.hang {
		return call.Reply{}, rest(ctx, 1000*time.Hour)
	}
	if a.fails != nil {
		return call.Reply{}, a.fails
	}
	t := model.Told{Fault: a.fault, Began: e.given, First: 3 * time.Millisecond}
	status := a.status
	if status == 0 {
		status = 200
	}
	if status == 200 && a.fault == nil {
		if err := give(last); err != nil {
			return call.Reply{}, err
		}
		t.Completion, t.Reasons, t.Began = whole.Document(), whole.Reasons(), e.given
	}
	t.Output = whole.Output()
	if t.Usage = cmp.Or(a.usage, whole.Usage()); t.Usage == nil && !a.silent && t.Completion != nil {
		t.Usage = &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15}
	}
	body, err := ledger.Encode(t)
	if err != nil {
		return call.Reply{}, err
	}
	return call.Reply{Answer: schemas.Answer{Status: status, Body: body, JSON: true, Hash: fmt.Sprintf("%064d", len(body)), RetryAfter: a.after}}, nil
}

// rest waits as the real client's reads do.
func rest(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return &fault.Call{Code: schemas.UpstreamTimeout, Sent: true, Status: 200}
	default:
		return &fault.Call{Code: schemas.Canceled, Sent: true, Status: 200}
	}
}

// said is the content of a completion.
func said(doc json.RawMessage) string {
	var c struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(doc, &c) != nil || len(c.Choices) == 0 {
		return ""
	}
	return c.Choices[0].Message.Content
}
