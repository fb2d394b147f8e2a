package outbound_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

const api = "http://api.example.com/v1/x"

// TestPermitsThatOpenNothing: the zero one, and that of a CONNECT.
func TestPermitsThatOpenNothing(t *testing.T) {
	t.Parallel()
	n, cfg := names(upstream.New(t), map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	c := client(t, cfg)
	for _, permit := range []*policy.Permit{new(policy.Permit), tunnelTo(t, "good.example:443")} {
		for _, reuse := range []outbound.Reuse{outbound.Fresh, outbound.Kept} {
			_, err := c.Open(t.Context(), permit, "t", reuse)
			failed(t, err, schemas.DenyAddress, false)
			require.ErrorIs(t, err, outbound.ErrNoPermit)
		}
	}
	assert.Empty(t, n.Lookups())
	assert.Empty(t, n.Dialed())
}

// TestAddresses: one look-up, every address of it checked, and only a checked
// one dialled.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers [][]string
		refuse  []string
		code    schemas.Code // "" succeeds
		dialed  []string
	}{
		"public":                 {answers: upstream.Answers("93.184.216.34"), dialed: []string{"93.184.216.34"}},
		"rebinding":              {answers: [][]string{{"93.184.216.34"}, {"169.254.169.254"}}, dialed: []string{"93.184.216.34"}},
		"IPv6 only":              {answers: upstream.Answers("2606:4700:4700::1111"), dialed: []string{"2606:4700:4700::1111"}},
		"as net.Resolver has it": {answers: upstream.Answers("::ffff:93.184.216.34"), dialed: []string{"93.184.216.34"}},
		"first refuses":          {answers: upstream.Answers("93.184.216.34", "93.184.216.35"), refuse: []string{"93.184.216.34"}, dialed: []string{"93.184.216.34", "93.184.216.35"}},
		"all refuse":             {answers: upstream.Answers("93.184.216.34", "93.184.216.35"), refuse: []string{"93.184.216.34", "93.184.216.35"}, code: schemas.UpstreamConnect, dialed: []string{"93.184.216.34", "93.184.216.35"}},
		"mixed, public first":    {answers: upstream.Answers("93.184.216.34", "127.0.0.1"), code: schemas.DenyAddress},
		"A public, AAAA not":     {answers: upstream.Answers("93.184.216.34", "::1"), code: schemas.DenyAddress},
		"CNAME to localhost":     {answers: upstream.Answers(upstream.CNAME + "localhost"), code: schemas.DenyAddress},
		"metadata":               {answers: upstream.Answers("169.254.169.254"), code: schemas.DenyAddress},
		"mapped loopback":        {answers: upstream.Answers("::ffff:127.0.0.1"), code: schemas.DenyAddress},
		"with a zone":            {answers: upstream.Answers("2606:4700:4700::1111%eth0"), code: schemas.DenyAddress},
		"no such name":           {answers: upstream.Answers(upstream.NXDomain), code: schemas.UpstreamDNS},
		"server fails":           {answers: [][]string{{upstream.ServFail}, {"169.254.169.254"}}, code: schemas.UpstreamDNS},
		"nothing in it":          {answers: upstream.Answers(upstream.EmptyAnswer), code: schemas.UpstreamDNS},
		"as many as allowed":     {answers: many(32), dialed: []string{"93.184.216.0"}},
		"one too many":           {answers: many(33), code: schemas.UpstreamDNS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			n, cfg := names(s, map[string][][]string{"api.example.com": c.answers, "localhost": upstream.Answers("127.0.0.1")})
			n.Refuse = c.refuse
			conn, err := client(t, cfg).Open(t.Context(), public(t, http.MethodPost, api), "", outbound.Fresh)
			assert.Equal(t, []string{"api.example.com"}, n.Lookups())
			assert.Equal(t, c.dialed, n.Dialed())
			if c.code != "" {
				failed(t, err, c.code, false)
				assert.Zero(t, s.Hits())
				return
			}
			require.NoError(t, err)
			defer conn.Close()
			resp, err := do(t.Context(), conn, outbound.Request{})
			require.NoError(t, err)
			assert.Equal(t, 200, resp.Status)
			assert.Equal(t, "api.example.com", s.Ledger()[0].Header("Host"))
			assert.Len(t, n.Lookups(), 1)
		})
	}
}

func many(n int) [][]string {
	var list []string
	for i := range n {
		list = append(list, "93.184.216."+strconv.Itoa(i))
	}
	return [][]string{list}
}

// TestNamesAreAbsolute: the dot at the end keeps search lists out.
func TestNamesAreAbsolute(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	cfg := outbound.Config{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		return nil, errors.New("no server")
	}}}
	_, err := client(t, cfg).Open(t.Context(), decide(t, policy.Entry{Name: "x", URLPrefix: "http://weir-no-such-name.example"}, "GET", "http://weir-no-such-name.example/"), "", outbound.Fresh)
	failed(t, err, schemas.UpstreamDNS, false)
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
	assert.Equal(t, "weir-no-such-name.example.", dns.Name)
	assert.Positive(t, asked.Load())
}

// hanging is a dial that connects to nothing but the addresses in good.
func hanging(good ...string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		if slices.Contains(good, address) {
			client, server := net.Pipe()
			_ = server.Close()
			return client, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// TestOpeningIsBounded: the look-up has a limit, and all addresses share another: a silent one does
// not cost the next its turn.
func TestOpeningIsBounded(t *testing.T) {
	t.Parallel()
	all := []string{"93.184.216.34", "93.184.216.35", "93.184.216.36"}
	for name, c := range map[string]struct {
		answer []string // default: all
		good   []string
		within time.Duration // the caller's own deadline; 0 has none
		code   schemas.Code
		took   time.Duration
	}{
		"no look-up":       {answer: []string{upstream.DNSTimeout}, code: schemas.UpstreamDNS, took: 5 * time.Second},
		"all silent":       {code: schemas.UpstreamConnect, took: 3 * time.Second},
		"second answers":   {good: []string{"93.184.216.35:80"}, took: time.Second},
		"third answers":    {good: []string{"93.184.216.36:80"}, took: 2 * time.Second},
		"caller's own end": {within: 1500 * time.Millisecond, code: schemas.UpstreamTimeout, took: 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			permit := public(t, "POST", api)
			synctest.Test(t, func(t *testing.T) {
				if c.answer == nil {
					c.answer = all
				}
				n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers(c.answer...)})
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.within, time.Hour))
				defer cancel()
				start := time.Now()
				conn, err := outbound.New(outbound.Config{Resolver: n, Dial: hanging(c.good...)}).Open(ctx, permit, "", outbound.Fresh)
				assert.Equal(t, c.took, time.Since(start))
				if c.code != "" {
					failed(t, err, c.code, false)
					return
				}
				require.NoError(t, err)
				conn.Close()
			})
		})
	}
}

func TestCancelWhileOpening(t *testing.T) {
	t.Parallel()
	permit := public(t, "GET", api)
	for _, answer := range []string{upstream.DNSTimeout, "93.184.216.34"} {
		synctest.Test(t, func(t *testing.T) {
			n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers(answer)})
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error)
			go func() {
				_, err := outbound.New(outbound.Config{Resolver: n, Dial: hanging()}).Open(ctx, permit, "", outbound.Fresh)
				got <- err
			}()
			synctest.Wait()
			cancel()
			failed(t, <-got, schemas.Canceled, false)
		})
	}
}

// TestTLS: what is wrong with a peer is known before anything is sent.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	good := authority.Config("api.example.com")
	with := func(change func(*tls.Config)) *tls.Config {
		cfg := good.Clone()
		change(cfg)
		return cfg
	}
	for name, c := range map[string]struct {
		cfg       *tls.Config // nil: no TLS at all
		behaviour upstream.Behaviour
		ok        bool
	}{
		"good":                {cfg: good, behaviour: upstream.OK(), ok: true},
		"TLS 1.2":             {cfg: with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), behaviour: upstream.OK(), ok: true},
		"TLS 1.1":             {cfg: with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), behaviour: upstream.OK()},
		"no HTTP/1.1":         {cfg: with(func(c *tls.Config) { c.NextProtos = []string{"spdy/3"} }), behaviour: upstream.OK()},
		"needs a certificate": {cfg: with(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 }), behaviour: upstream.OK()},
		"expired":             {cfg: authority.ConfigUntil(time.Now().Add(-time.Minute), "api.example.com"), behaviour: upstream.OK()},
		"self-signed":         {cfg: upstream.SelfSigned(t, "api.example.com"), behaviour: upstream.OK()},
		"another authority":   {cfg: upstream.NewAuthority(t).Config("api.example.com"), behaviour: upstream.OK()},
		"another name":        {cfg: authority.Config("other.example.com"), behaviour: upstream.OK()},
		"the address only":    {cfg: authority.Config("93.184.216.34", "127.0.0.1"), behaviour: upstream.OK()},
		"hangs":               {cfg: good, behaviour: upstream.HandshakeHang()},
		"resets":              {cfg: good, behaviour: upstream.ResetInHandshake()},
		"speaks HTTP":         {behaviour: upstream.Unsolicited("HTTP/1.1 400 Bad Request\r\n\r\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.NewTLS(t, c.cfg, c.behaviour)
			_, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
			cfg.RootCAs = authority.Pool()
			conn, err := client(t, cfg).Open(t.Context(), public(t, "POST", "https://api.example.com/v1/x"), "", outbound.Fresh)
			if !c.ok {
				failed(t, err, schemas.UpstreamTLS, false)
				s.WaitIdle()
				assert.Zero(t, s.Hits())
				return
			}
			require.NoError(t, err)
			defer conn.Close()
			resp, err := do(t.Context(), conn, outbound.Request{Body: []byte("{}")})
			require.NoError(t, err)
			assert.JSONEq(t, `{"ok":true}`, string(resp.Body))
			assert.Equal(t, "api.example.com", s.Ledger()[0].Header("Host"))
			assert.Equal(t, 1, s.Hits())
		})
	}
}

// TestTLSCutWithoutGoodbye: over TLS the end of a body without a length needs
// the peer's goodbye; a cut connection is a truncated answer.
func TestTLSCutWithoutGoodbye(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	for want, end := range map[schemas.Code]func(*upstream.Exchange){
		"":                        func(*upstream.Exchange) {},
		schemas.UpstreamTruncated: (*upstream.Exchange).Close,
	} {
		s := upstream.NewTLS(t, authority.Config("127.0.0.1"), upstream.Answer(func(x *upstream.Exchange) {
			x.Write("HTTP/1.1 200 OK\r\n\r\nall of it?")
			end(x)
		}))
		resp, err := call(t, client(t, outbound.Config{RootCAs: authority.Pool()}), s, "GET", "/", outbound.Request{})
		if want != "" {
			assert.Equal(t, 200, failure(t, err, want, true).Status)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "all of it?", string(resp.Body))
	}
}

// TestNoProxyFromTheEnvironment must not run beside others: it sets variables
// that net/http reads once.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	trap := upstream.New(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, trap.URL())
	}
	t.Setenv("NO_PROXY", "")
	s := upstream.New(t)
	n, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
	conn := open(t.Context(), t, client(t, cfg), public(t, "GET", api))
	_, err := do(t.Context(), conn, outbound.Request{})
	require.NoError(t, err)
	assert.Equal(t, 1, s.Hits())
	assert.Equal(t, []string{"93.184.216.34"}, n.Dialed())
	assert.Zero(t, trap.Accepted())
}
