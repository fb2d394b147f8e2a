// Package llm is a double of a model's provider that speaks the chat completions
// protocol and the other dialects: correctly, or with one fault. It is an ordinary HTTP server and keeps a
// ledger of what it was asked.
//
// By default it is correct: POST /v1/chat/completions answers any model with a few
// words, as a stream where the request asks for one, with usage where that asks for
// it too. What it does with a request is, in this order: the next Act of the Script;
// the Act of the model asked for; where the last part of the model's name is the name
// of a Fault ("any/crlf"), the Default with that fault; the Default.
//
//	s := llm.New(t, llm.Config{Key: "sk-test"})
//	hold := make(chan struct{})
//	s := llm.New(t, llm.Config{Script: []llm.Act{
//		{Fault: llm.Status(429)},                          // the first request
//		{Texts: []string{"a", "b"}, Hold: hold},           // the second and all that follow
//	}})
//	r := s.WaitRequest(2)                                      // blocks until the second has come
//	close(hold)                                                // lets it end
//	<-r.Closed()                                               // over, for whatever reason
//	r.Cut()                                                    // whether the caller left before the end
//
// Of the faults, the other dialects have those that come before the status.
//
// An Act waits at its channels, so that a test waits on signals alone; Act.Answer
// writes whatever a test wants to the wire. Faults lists every fault.
package llm

import (
	"net/http"
	"sync/atomic"
	"testing"

	"weir/internal/weirtest/doubles"
)

// Config says what a provider is like. Its zero value is correct.
type Config struct {
	// Key is asked for as a bearer token; empty: nobody is asked.
	Key string
	// Script gives the n-th request for a completion the n-th act, and the last one to
	// all that follow. A refusal takes no step of it.
	Script []Act
	// Models are acts by the names of models as they are sent.
	Models map[string]Act
	// Listed are the models of GET /v1/models; none: there is no such list. Requests for it are not in
	// the ledger.
	Listed []string
	// Default is the act of every other model.
	Default Act
}

// prefix stands before the routes of a provider.
const prefix = "/v1"

// Server is a running double. Refused requests are in its ledger, too.
type Server struct {
	*doubles.Server[*Request]

	cfg   Config
	asked atomic.Int64 // for a completion, and not refused
}

// New starts a provider that stops with its test.
func New(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	s := start(cfg, tb.Fatalf)
	tb.Cleanup(s.Close)
	return s
}

// Start starts a provider that outlives a test.
func Start(cfg Config) *Server { return start(cfg, nil) }

func start(cfg Config, fatal func(format string, args ...any)) *Server {
	s := &Server{cfg: cfg}
	s.Server = doubles.Serve[*Request](http.HandlerFunc(s.serve), fatal)
	return s
}

// WaitRequest blocks until the n-th request, counted from 1, has come, and returns it.
func (s *Server) WaitRequest(n int) *Request { return s.WaitFor(n) }

// URL is the base that a model's routes are joined to, without a slash at the end.
func (s *Server) URL() string { return "http://" + s.Addr() + prefix }
