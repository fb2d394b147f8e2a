package outbound_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

const said9 = "AGWCANARY-SAID-9"

// TestTextsTellNothing: whatever went wrong, no rendering of the error, and of
// the causes down to the first private one, shows an address, a port, a host, a
// certificate, or a word of the upstream's.
func TestTextsTellNothing(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	unknown := upstream.NewAuthority(t)
	does := func(b upstream.Behaviour) *upstream.Behaviour { return &b }
	raw := func(text string) *upstream.Behaviour { return does(upstream.Raw(text)) }
	for name, c := range map[string]struct {
		tls       *tls.Config
		behaviour *upstream.Behaviour
		answer    [][]string
		code      schemas.Code
	}{
		"no such name":          {answer: upstream.Answers("NXDOMAIN"), code: schemas.UpstreamDNS},
		"DNS is broken":         {answer: upstream.Answers("SERVFAIL"), code: schemas.UpstreamDNS},
		"DNS has no address":    {answer: upstream.Answers("EMPTY"), code: schemas.UpstreamDNS},
		"a private address":     {answer: upstream.Answers("10.9.8.7"), code: schemas.DenyAddress},
		"another's certificate": {tls: authority.Config(said9 + ".example"), code: schemas.UpstreamTLS},
		"unknown authority":     {tls: unknown.Config("api.example.com"), code: schemas.UpstreamTLS},
		"expired certificate":   {tls: authority.ConfigUntil(time.Now().Add(-time.Hour), "api.example.com"), code: schemas.UpstreamTLS},
		"a banner":              {behaviour: raw("SSH-2.0-" + said9 + "\r\n"), code: schemas.UpstreamProtocol},
		"a reason":              {behaviour: raw("HTTP/1.1 abc " + said9 + "\r\n\r\n"), code: schemas.UpstreamProtocol},
		"a status line":         {behaviour: raw("HTTP/1.1 " + said9 + "\r\n\r\n"), code: schemas.UpstreamProtocol},
		"a header line":         {behaviour: raw(ok200 + said9 + "\r\n\r\n"), code: schemas.UpstreamProtocol},
		"a length":              {behaviour: raw(ok200 + "Content-Length: " + said9 + "\r\n\r\n"), code: schemas.UpstreamProtocol},
		"a coding":              {behaviour: does(upstream.Encoding(said9, said9)), code: schemas.UpstreamEncoding},
		"a transfer coding":     {behaviour: raw(ok200 + "Transfer-Encoding: " + said9 + "\r\n\r\n"), code: schemas.UpstreamProtocol},
		"a chunk":               {behaviour: raw(ok200 + "Transfer-Encoding: chunked\r\n\r\n" + said9 + "\r\n"), code: schemas.UpstreamProtocol},
		"a trailer":             {behaviour: raw(ok200 + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + said9 + "\r\n\r\n"), code: schemas.UpstreamProtocol},
		"gzip that is none":     {behaviour: does(upstream.Encoding("gzip", said9)), code: schemas.UpstreamEncoding},
		"cut":                   {behaviour: does(upstream.LyingLength(999, said9)), code: schemas.UpstreamTruncated},
		"reset":                 {behaviour: does(upstream.ResetBeforeResponse()), code: schemas.UpstreamReset},
		"too many headers":      {behaviour: does(upstream.HeaderCount(300)), code: schemas.UpstreamHeadersTooLarge},
		"too large":             {behaviour: does(upstream.BodyBytes(2000)), code: schemas.UpstreamTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behaviour, scheme := upstream.OK(), "http"
			if c.behaviour != nil {
				behaviour = *c.behaviour
			}
			s := upstream.New(t, behaviour)
			if c.tls != nil {
				scheme, s = "https", upstream.NewTLS(t, c.tls, behaviour)
			}
			answer := c.answer
			if answer == nil {
				answer = upstream.Answers("93.184.216.34")
			}
			_, cfg := names(s, map[string][][]string{"api.example.com": answer})
			cfg.RootCAs, cfg.MaxBodyBytes = authority.Pool(), 1000
			err := both(t, client(t, cfg), scheme+"://api.example.com/v1/x?q="+said9, outbound.Request{
				Headers: []schemas.Header{{Name: "X-" + said9, Value: said9}}, Query: []schemas.Header{{Name: "k", Value: said9}},
			})
			quiet(t, err, c.code, s.Addr().String())
		})
	}
}

// both opens a connection and makes the request.
func both(t *testing.T, c *outbound.Client, target string, r outbound.Request) error {
	t.Helper()
	conn, err := c.Open(t.Context(), public(t, "GET", target))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Do(t.Context(), r)
	return err
}

// quiet asserts the code and renders the error in every way there is.
func quiet(t *testing.T, err error, code schemas.Code, addr string) {
	t.Helper()
	var c *fault.Call
	require.ErrorAs(t, err, &c)
	require.Equal(t, code, c.Code, "%v", errors.Unwrap(c.Cause))
	var out bytes.Buffer
	for _, e := range []error{err, c.Cause, fmt.Errorf("x: %w", c.Cause), errors.Join(err, c.Cause), &fault.Later{Cause: c.Cause}} {
		fmt.Fprintf(&out, "%v %+v %s %q\n", e, e, e, e)
		for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			slog.New(h).Error("x", "err", e)
		}
	}
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	for _, word := range []string{"CANARY", "agwcanary", "example", "93.184", "10.9.8.7", host, ":" + port, "/v1", "x509", "malformed"} {
		assert.NotContains(t, out.String(), word)
	}
}

// TestRefusedFieldsAreNotNamed: they are the caller's content.
func TestRefusedFieldsAreNotNamed(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	for _, bad := range []schemas.Header{{Name: said9, Value: "a\nb"}, {Name: said9 + " x", Value: "a"}, {Name: "Proxy-" + said9, Value: said9 + "\x00"}} {
		_, err := call(t, client(t, outbound.Config{}), s, "GET", "/", outbound.Request{Headers: []schemas.Header{bad}})
		quiet(t, err, schemas.DenyHeader, s.Addr().String())
	}
	assert.Zero(t, s.Hits())
}
