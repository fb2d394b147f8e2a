package llm

import (
	"encoding/json"
	"net/http"
	"strings"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

// Request is one request that the provider has read.
type Request struct {
	*doubles.Call

	Method, Path string
	Header       http.Header
	Body         []byte
	// Dialect is that of the path.
	Dialect schemas.Dialect
	// Asked is Body, decoded; its zero value where that is no request.
	Asked Asked

	number int // of the completions, from 1
}

// Asked is what the provider itself reads of a request.
type Asked struct {
	Model         string          `json:"model"`
	Messages      json.RawMessage `json:"messages"`
	Stream        bool            `json:"stream"`
	N             int             `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Key is the bearer token that came with the request.
func (r *Request) Key() string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

// act is what the provider does with a request.
func (s *Server) act(r *Request) Act {
	r.number = int(s.asked.Add(1))
	if n := len(s.cfg.Script); n > 0 {
		return s.cfg.Script[min(r.number, n)-1]
	}
	if act, ok := s.cfg.Models[r.Asked.Model]; ok {
		return act
	}
	act := s.cfg.Default
	if f := Fault(r.Asked.Model[strings.LastIndexByte(r.Asked.Model, '/')+1:]); f.known() {
		act.Fault = f
	}
	return act
}
