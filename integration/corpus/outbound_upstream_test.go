package corpus_test

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// behaviourSpec is what the fake upstream does.
type behaviourSpec struct {
	Behaviour   string            `json:"behaviour"`
	Status      int               `json:"status"`
	Headers     map[string]string `json:"headers"`
	Body        string            `json:"body"`
	BodyB64     string            `json:"body_b64"`
	BodyGen     json.RawMessage   `json:"body_gen"`
	ContentType string            `json:"content_type"`
	Bytes       string            `json:"bytes"` // the code points up to 255 are bytes
	Location    list              `json:"location"`
	Hops        int               `json:"hops"`
	BPS         int               `json:"bps"`
	N           int               `json:"n"`
	Decoded     int64             `json:"decoded"`
	Value       string            `json:"value"`
	Steps       []json.RawMessage `json:"steps"`
}

// behaviours is the script of the row's upstream: one behaviour a request, the last repeated.
// The faults of TLS and of the network are not in it; newStage sets them up.
func (r *outboundRow) behaviours() ([]upstream.Behaviour, error) {
	name := r.Upstream.Behaviour
	if _, ok := tlsFaults[name]; ok || name == "connect_refused" || name == "syn_blackhole" {
		if ok && r.scheme() != "https" {
			return nil, fmt.Errorf("upstream behaviour %q without TLS", name)
		}
		return []upstream.Behaviour{upstream.OK()}, nil
	}
	return r.script(r.Upstream)
}

func (r *outboundRow) script(s behaviourSpec) ([]upstream.Behaviour, error) {
	status := cmp.Or(s.Status, http.StatusOK)
	switch s.Behaviour {
	case "redirect":
		redirect := upstream.Redirect(status, s.Location...)
		if slices.ContainsFunc(s.Location, r.leadsBack) {
			return []upstream.Behaviour{redirect}, nil // every request is redirected
		}
		return []upstream.Behaviour{redirect, upstream.OK()}, nil
	case "redirect_chain":
		var chain []upstream.Behaviour
		for hop := range s.Hops {
			chain = append(chain, upstream.Redirect(http.StatusFound, "/v1/hop"+strconv.Itoa(hop+1)))
		}
		return append(chain, upstream.OK()), nil
	case "sequence":
		return r.sequence(s.Steps)
	case "close_reused_conn_after_read":
		// Weir never reuses a connection: a warm-up request stands for the earlier one.
		return []upstream.Behaviour{upstream.OK(), upstream.CloseBeforeResponse()}, nil
	case "respond", "respond_b64":
		b, err := s.respond(status)
		return []upstream.Behaviour{b}, err
	}
	if b, ok := s.named(status); ok {
		return []upstream.Behaviour{b}, nil
	}
	return nil, fmt.Errorf("upstream behaviour %q is not known", s.Behaviour)
}

// sequence reads steps: a status, a name, or a whole specification. Each but the last answers
// one request.
func (r *outboundRow) sequence(steps []json.RawMessage) (all []upstream.Behaviour, err error) {
	for i, raw := range steps {
		var spec behaviourSpec
		if json.Unmarshal(raw, &spec.Status) == nil {
			spec.Behaviour = "respond"
		} else if json.Unmarshal(raw, &spec.Behaviour) != nil {
			if err := readStrictly(raw, &spec); err != nil {
				return nil, err
			}
		}
		some, err := r.script(spec)
		if err != nil {
			return nil, err
		}
		if i < len(steps)-1 {
			some = some[:1]
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, errors.New("a sequence without steps")
	}
	return all, nil
}

// leadsBack reports whether a location is the row's own URL.
func (r *outboundRow) leadsBack(location string) bool {
	from, err := url.Parse(r.Request.URL)
	if err != nil {
		return false
	}
	to, err := from.Parse(location)
	return err == nil && strings.EqualFold(to.Scheme+"://"+to.Host, from.Scheme+"://"+from.Host) && to.RequestURI() == from.RequestURI()
}

func (s behaviourSpec) respond(status int) (upstream.Behaviour, error) {
	body, err := s.Body, error(nil)
	if s.BodyGen != nil {
		body, err = written(s.BodyGen)
	} else if text := s.BodyB64; text != "" {
		var raw []byte
		raw, err = base64.StdEncoding.DecodeString(text)
		body = string(raw)
	}
	headers := []schemas.Header{upstream.Header("Content-Type", cmp.Or(s.ContentType, s.Headers["Content-Type"], "application/json"))}
	for name, value := range s.Headers {
		if name != "Content-Type" {
			headers = append(headers, upstream.Header(name, value))
		}
	}
	return upstream.Respond(status, body, headers...), err
}

// named are the behaviours that package upstream has by the same name.
func (s behaviourSpec) named(status int) (upstream.Behaviour, bool) {
	interval := time.Second / time.Duration(max(1, s.BPS))
	b, ok := map[string]func() upstream.Behaviour{
		"ok":                         upstream.OK,
		"accept_hang":                upstream.AcceptHang,
		"infinite_body":              upstream.InfiniteBody,
		"infinite_chunked":           upstream.InfiniteChunked,
		"gzip_truncated":             upstream.GzipTruncated,
		"gzip_trailing_garbage":      upstream.GzipTrailingGarbage,
		"chunked_no_terminator":      upstream.ChunkedNoTerminator,
		"reset_before_response":      upstream.ResetBeforeResponse,
		"reset_mid_body":             upstream.ResetMidBody,
		"reset_during_tls_handshake": upstream.ResetInHandshake,
		"half_close_no_response":     upstream.HalfClose,
		"tls_handshake_hang":         upstream.HandshakeHang,
		"raw":                        func() upstream.Behaviour { return upstream.Raw(latin1(s.Bytes)) },
		"slow_headers":               func() upstream.Behaviour { return upstream.SlowHeaders(interval) },
		"slow_body":                  func() upstream.Behaviour { return upstream.SlowBody(interval) },
		"body_bytes":                 func() upstream.Behaviour { return upstream.BodyBytes(s.N) },
		"gzip_bomb":                  func() upstream.Behaviour { return upstream.GzipBomb(s.Decoded) },
		"encoding":                   func() upstream.Behaviour { return upstream.Encoding(s.Value, coded(s.Value)) },
		"early_response_then_reset":  func() upstream.Behaviour { return upstream.EarlyThenReset(status) },
		"header_count":               func() upstream.Behaviour { return upstream.HeaderCount(s.N) },
		"header_bytes":               func() upstream.Behaviour { return upstream.HeaderBytes(s.N) },
		"trailer_bytes":              func() upstream.Behaviour { return upstream.TrailerBytes(s.N) },
		"informational_flood":        func() upstream.Behaviour { return upstream.InformationalFlood(s.N) },
		"echo_headers":               func() upstream.Behaviour { return upstream.EchoJSON(status) },
		"echo_headers_urlencoded":    func() upstream.Behaviour { return upstream.EchoURLEncoded(status) },
		"echo_in_response_header":    func() upstream.Behaviour { return upstream.EchoInHeader(status) },
		"echo_gzip":                  func() upstream.Behaviour { return upstream.EchoGzip(status) },
		"echo_split_across_chunks":   func() upstream.Behaviour { return upstream.EchoChunked(status, 7) },
		"echo_at_512":                func() upstream.Behaviour { return upstream.EchoAt(status, 512, 12) },
	}[s.Behaviour]
	if !ok {
		return upstream.H2(s.Behaviour)
	}
	return b(), true
}

func latin1(s string) string {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

// coded is a body in the codings that its header names; of those that the standard library
// does not write there is only the header.
func coded(value string) string {
	body := `{"ok":true}`
	for coding := range strings.SplitSeq(value, ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			body = upstream.Compress(body)
		case "deflate":
			var b bytes.Buffer
			w := zlib.NewWriter(&b)
			_, _ = w.Write([]byte(body))
			_ = w.Close()
			body = b.String()
		}
	}
	return body
}

// tlsFaults are the servers that have one fault in their TLS and no other.
var tlsFaults = map[string]func(t *testing.T, a *upstream.Authority, names []string) *tls.Config{
	"tls_expired": func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		return a.ConfigUntil(time.Now().Add(-time.Hour), names...)
	},
	"tls_not_yet_valid": func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		return a.ConfigBetween(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour), names...)
	},
	"tls_self_signed": func(t *testing.T, _ *upstream.Authority, names []string) *tls.Config {
		t.Helper()
		return upstream.SelfSigned(t, names...)
	},
	"tls_untrusted_ca": func(t *testing.T, _ *upstream.Authority, names []string) *tls.Config {
		t.Helper()
		return upstream.NewAuthority(t).Config(names...)
	},
	"tls_wrong_host": func(_ *testing.T, a *upstream.Authority, _ []string) *tls.Config {
		return a.Config("other.example.org")
	},
	"tls_ip_san_only": func(_ *testing.T, a *upstream.Authority, _ []string) *tls.Config { return a.Config("93.184.216.34") },
	"tls_1_0":         oldVersion(tls.VersionTLS10),
	"tls_1_1":         oldVersion(tls.VersionTLS11),
	"tls_client_cert_request": func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		cfg := a.Config(names...)
		cfg.ClientAuth = tls.RequestClientCert
		return cfg
	},
}

func oldVersion(version uint16) func(*testing.T, *upstream.Authority, []string) *tls.Config {
	return func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		cfg := a.Config(names...)
		cfg.MinVersion, cfg.MaxVersion = version, version
		return cfg
	}
}

// TestTLSFaults: a careful client fails for the fault of the behaviour's name.
func TestTLSFaults(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	for name, want := range map[string]string{
		"tls_expired": "is after", "tls_not_yet_valid": "is before", "tls_self_signed": "unknown authority", "tls_untrusted_ca": "unknown authority",
		"tls_wrong_host": "valid for other.example.org, not", "tls_ip_san_only": "not valid for any names", "tls_1_0": "protocol version", "tls_1_1": "protocol version",
	} {
		s := upstream.NewTLS(t, tlsFaults[name](t, authority, []string{"api.example.com"}))
		client := tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), ServerName: "api.example.com", MinVersion: tls.VersionTLS12}}
		_, err := client.DialContext(t.Context(), "tcp", s.Addr().String())
		require.ErrorContains(t, err, want, name)
	}
}
