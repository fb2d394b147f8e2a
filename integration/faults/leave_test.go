//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"weir/internal/weirtest/crowd"
)

// leave has clients go away at every place of a request: before its body, in the middle of
// it, behind it, and while they follow events. What was whole is done once, what was not is
// not there, and nobody is waited for.
func leave(ctx context.Context, s *scene) {
	for range s.times(2, 10) {
		for _, n := range s.writers() {
			for _, part := range []int{0, 1} { // of two halves
				s.leaveBefore(ctx, n, part)
			}
			o := s.crowd.Order(crowd.Post)
			s.must(post(ctx, n, s.crowd.Body(o), 2))
			s.bite("left behind a request", 1)
			s.crowd.Send(ctx, o) // whether it was accepted or not: it is done once
		}
	}
	s.leaveStreams(ctx)
}

// leaveBefore goes away when the head and so many halves of the body are sent. Nothing is
// accepted, which a later request of the same node's shows.
func (s *scene) leaveBefore(ctx context.Context, n *node, halves int) {
	o := s.crowd.Order(crowd.Post)
	s.must(post(ctx, n, s.crowd.Body(o), halves))
	s.goOn(ctx, "the load behind one that left")
	status, text := fetch(ctx, http.MethodGet, s.somewhere(func(r role) bool { return r.read })+"/v1/actions/"+o.Name, "")
	if status != http.StatusNotFound {
		s.t.Fatalf("%s was given %d halves of %s, and there is: %d %s", n.name, halves, o.Name, status, text)
	}
	s.bite([]string{"left before a body", "left in a body"}[halves], 1)
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
func (s *scene) leaveStreams(ctx context.Context) {
	s.target.Hold(s.slug() + "-" + crowd.Get)
	name := s.heard(ctx)
	many := s.times(50, 500)
	open := func(n *node) float64 { return n.gauge(ctx, "weir_sse_streams") }
	for _, n := range s.that(func(r role) bool { return r.read }) {
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
		s.bite("streams left at once", many)
	}
	s.target.Release()
}
