//go:build e2e || nightly

package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// leave has clients go away at every place of a request: before its body, in the middle of
// it, behind it, and while they follow events. What was whole is done once, what was not is
// not there, and nobody is waited for.
func leave(ctx context.Context, s *fixture) {
	for range s.times(2, 10) {
		for _, n := range s.writers() {
			for _, part := range []int{0, 1} { // of two halves
				s.leaveBefore(ctx, n, part)
			}
			o := s.crowd.Order(callers.Post)
			s.must(post(ctx, n, s.crowd.Body(o), 2))
			s.inject("left behind a request", 1)
			s.crowd.Send(ctx, o) // whether it was accepted or not: it is done once
		}
	}
	s.leaveStreams(ctx)
}

// leaveBefore goes away when the head and so many halves of the body are sent. Nothing is
// accepted, which a later request of the same node's shows.
func (s *fixture) leaveBefore(ctx context.Context, n *node, halves int) {
	o := s.crowd.Order(callers.Post)
	s.must(post(ctx, n, s.crowd.Body(o), halves))
	s.goOn(ctx, "the load behind one that left")
	status, text := fetch(ctx, http.MethodGet, s.somewhere(role.reads)+"/v1/actions/"+o.Name, "")
	if status != http.StatusNotFound {
		s.t.Fatalf("%s was given %d halves of %s, and there is: %d %s", n.name, halves, o.Name, status, text)
	}
	s.inject([]string{"left before a body", "left in a body"}[halves], 1)
}

// post sends the head of a request and so many halves of its body, and breaks the connection.
func post(ctx context.Context, n *node, body string, halves int) error {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", "/v1/execute", len(body))
	conn, err := n.say(ctx, head+body[:halves*len(body)/2])
	if err != nil {
		return err
	}
	return conn.Close()
}

// say opens a connection to the node and sends something. Closing it breaks it.
func (n *node) say(ctx context.Context, text string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(n.url(), "http://"))
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetLinger(0)
	}
	if err == nil {
		_, err = conn.Write([]byte(text))
	}
	return conn, err
}

// leaveStreams has many follow an action that does not end, and go away at once.
func (s *fixture) leaveStreams(ctx context.Context) {
	s.target.Hold(s.slug() + "-" + callers.Get)
	name := s.heard(ctx)
	many := s.times(50, 500)
	open := func(n *node) float64 { return n.gauge(ctx, "weir_sse_streams") }
	for _, n := range s.that(role.reads) {
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				_ = c.Close()
			}
		}()
		for range many {
			conn, err := n.say(ctx, "GET /v1/actions/"+name+"/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
			s.must(err)
			conns = append(conns, conn)
		}
		s.must(until(ctx, "the streams to be open", func() bool { return open(n) >= float64(many) }))
		for _, c := range conns {
			_ = c.Close()
		}
		// The load follows a few itself.
		s.must(until(ctx, "the streams to be let go", func() bool { return open(n) < float64(many)/2 }))
		s.inject("streams left at once", many)
	}
	s.target.Release()
}

// deepQueue has far more accepted than is under way, has every seventh canceled, and kills a
// server and a worker while the rest is worked off.
func deepQueue(ctx context.Context, s *fixture) {
	s.target.Hold(s.slug())
	depth := s.times(200, 1000)
	s.queue(ctx, depth, 7)
	waits, _, err := s.log.backlog(ctx)
	s.must(err)
	s.inject("queued", int(waits))
	s.inject("canceled", depth/7)
	s.target.Release()
	s.cluster.Servers[s.chance.IntN(len(s.cluster.Servers))].Kill()
	s.workers()[0].kill()
	s.goOn(ctx, "the load behind the queue")
	s.must(s.heal(ctx))
}

// queue has so many actions accepted, and every nth canceled.
func (s *fixture) queue(ctx context.Context, depth, nth int) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range depth {
		group.Go(func() error { return s.enqueue(ctx, callers.Classes()[i%len(callers.Classes())], i%nth == nth-1) })
	}
	s.must(group.Wait())
}

// enqueue has one action accepted, at whatever node, and canceled.
func (s *fixture) enqueue(ctx context.Context, class string, cancel bool) error {
	o := s.crowd.Order(class)
	o.Async = true
	err := until(ctx, o.Name+" to be accepted", func() bool {
		a, _ := s.crowd.Ask(ctx, s.somewhere(role.writes), o)
		return a.Answer == history.Accepted
	})
	if err != nil || !cancel {
		return err
	}
	return until(ctx, o.Name+" to be canceled", func() bool {
		status, _ := fetch(ctx, http.MethodPost, s.somewhere(role.writes)+"/v1/actions/"+o.Name+"/cancel", "")
		return status/100 == 2 || status == http.StatusConflict // or it has ended: a call that is denied does at once
	})
}

// poisons are messages that no worker can do anything with.
func poisons() map[string][]byte {
	return map[string][]byte{
		"not-json":        []byte(`{`),
		"no-action":       []byte(`{"v":1,"n":1,"type":"accepted"}`),
		"unknown-version": []byte(`{"v":99,"n":1,"type":"accepted","action":{}}`),
		"not-a-call":      []byte(`{"v":1,"n":1,"type":"accepted","action":{"id":"poison-not-a-call","tenant":"default","kind":"http","payload":[1]}}`),
		"empty":           {},
		"large":           bytes.Repeat([]byte("["), 900<<10),
	}
}

// poison puts messages on the log, past every door, that are no actions. Each is put aside,
// no node dies of one, and the work behind them goes on.
func poison(ctx context.Context, s *fixture) {
	before, err := s.log.count(ctx, schemas.DeadStream)
	s.must(err)
	var refs []schemas.Ref
	for name, data := range poisons() {
		for _, kind := range []schemas.Kind{schemas.KindHTTP, schemas.KindPlan} {
			ref := schemas.Ref{Tenant: "default", Kind: kind, ID: fmt.Sprintf("poison-%s-%s-%d", kind, name, s.chance.Uint64())}
			_, err = s.log.JS.Publish(ctx, s.layout.Subject(ref, schemas.SectionAccepted), data)
			s.must(err)
			refs = append(refs, ref)
		}
	}
	s.omit = func(r schemas.Record) bool {
		ref, _, err := schemas.ParseSubject(r.Subject)
		return err == nil && slices.Contains(refs, ref)
	}
	err = until(ctx, "the poison to be put aside", func() bool {
		n, err := s.log.count(ctx, schemas.DeadStream)
		return err == nil && n >= before+uint64(len(refs))
	})
	s.must(err)
	s.inject("put aside", len(refs))
	for _, n := range s.nodes {
		if n.ended() {
			s.t.Fatalf("%s died of it", n.name)
		}
	}
}

// sameKey has fifty clients ask for the same thing at the same moment, at every node, and as
// many change the rules on the same etag: there is one winner.
func sameKey(ctx context.Context, s *fixture) {
	const crowd = 50
	for range s.times(1, 5) {
		o := s.crowd.Order("post")
		o.Async = true
		s.inject("of one name accepted", atOnce(crowd, func(int) bool {
			a, _ := s.crowd.Ask(ctx, s.somewhere(role.writes), o)
			return a.Answer == history.Accepted
		}))
		s.crowd.Send(ctx, o) // its end is told too
		s.oneWriter(ctx, crowd)
	}
}

// atOnce does something many times at the same moment, and counts how often it went well.
func atOnce(many int, do func(i int) bool) int {
	var well atomic.Int64
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			if do(i) {
				well.Add(1)
			}
		})
	}
	group.Wait()
	return int(well.Load())
}

func (s *fixture) oneWriter(ctx context.Context, crowd int) {
	operate := func(name, args string) (int, string) {
		body := fmt.Sprintf(`{"request_id":"rules","operation":%q,"args":%s}`, name, args)
		return fetch(ctx, http.MethodPost, s.somewhere(role.writes)+"/v1/agent-api", body)
	}
	_, text := operate(schemas.OpStatus, "{}")
	etag := member(text, "rules_etag")
	round := s.chance.Uint32()
	won := atOnce(crowd, func(i int) bool {
		status, _ := operate(schemas.OpRulesCreate, fmt.Sprintf(`{"if_match":%q,"rule":{"id":"r%d-%d","type":"delay","match":{"url_pattern":"http://nowhere.invalid/*"},"action":{"delay_ms":1}}}`, etag, round, i))
		return status == http.StatusOK
	})
	if won != 1 {
		s.t.Fatalf("of %d writers with the etag %q %d won: %s", crowd, etag, won, text)
	}
	s.inject("of one etag won", won)
}
