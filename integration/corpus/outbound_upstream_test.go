//go:build e2e

package corpus_test

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

func itoa(n int) string { return strconv.Itoa(n) }

// behaviourSpec is what the fake upstream is told to do.
type behaviourSpec struct {
	Behaviour   string            `json:"behaviour"`
	Status      int               `json:"status"`
	Headers     map[string]string `json:"headers"`
	Body        string            `json:"body"`
	BodyB64     string            `json:"body_b64"`
	BodyGen     json.RawMessage   `json:"body_gen"`
	ContentType string            `json:"content_type"`
	Bytes       string            `json:"bytes"`
	Location    json.RawMessage   `json:"location"`
	Hops        int               `json:"hops"`
	BPS         int               `json:"bps"`
	N           int               `json:"n"`
	Decoded     int64             `json:"decoded"`
	Value       string            `json:"value"`
	Steps       []json.RawMessage `json:"steps"`
}

// behaviours returns the script of the row's upstream, or an error that names what
// the harness does not have. Behaviours of TLS and of the network are not in the
// script: newStage sets them up.
func (r *outboundRow) behaviours() ([]upstream.Behaviour, error) {
	name := r.Upstream.Behaviour
	if onTLS := strings.HasPrefix(name, "tls_") || name == "reset_during_tls_handshake"; onTLS && r.scheme() != "https" {
		return nil, fmt.Errorf("behaviour %q without TLS; the URL must be https", name)
	}
	if _, ok := tlsFaults[name]; ok || slices.Contains(networkFaults, name) {
		return []upstream.Behaviour{upstream.OK()}, nil
	}
	return r.script(r.Upstream)
}

// networkFaults are the behaviours that keep a connection from being made.
var networkFaults = []string{"connect_refused", "syn_blackhole"}

func (r *outboundRow) script(s behaviourSpec) ([]upstream.Behaviour, error) {
	one := func(b upstream.Behaviour) ([]upstream.Behaviour, error) { return []upstream.Behaviour{b}, nil }
	if err := s.malformed(); err != nil {
		return nil, err
	}
	status := s.Status
	if status == 0 {
		status = http.StatusOK
	}
	if b, ok := plainBehaviours[s.Behaviour]; ok {
		return one(b())
	}
	interval := time.Second / time.Duration(max(1, s.BPS))
	switch s.Behaviour {
	case "respond", "respond_b64":
		return one(respond(s, status))
	case "raw":
		return one(upstream.Raw(latin1(s.Bytes)))
	case "redirect":
		redirect := upstream.Redirect(status, locations(s.Location)...)
		if slices.ContainsFunc(locations(s.Location), r.leadsBack) {
			return one(redirect) // also to those that follow it
		}
		return []upstream.Behaviour{redirect, upstream.OK()}, nil
	case "redirect_chain":
		var chain []upstream.Behaviour
		for hop := range s.Hops {
			chain = append(chain, upstream.Redirect(http.StatusFound, "/v1/hop"+itoa(hop+1)))
		}
		return append(chain, upstream.OK()), nil
	case "sequence":
		return r.sequence(s.Steps)
	case "slow_headers":
		return one(upstream.SlowHeaders(interval))
	case "slow_body":
		return one(upstream.SlowBody(interval))
	case "body_bytes":
		return one(upstream.BodyBytes(s.N))
	case "gzip_bomb":
		return one(upstream.GzipBomb(s.Decoded))
	case "encoding":
		return one(upstream.Encoding(s.Value, coded(s.Value)))
	case "early_response_then_reset":
		return one(upstream.EarlyThenReset(status))
	case "header_count":
		return one(upstream.HeaderCount(s.N))
	case "header_bytes":
		return one(upstream.HeaderBytes(s.N))
	case "trailer_bytes":
		return one(upstream.TrailerBytes(s.N))
	case "informational_flood":
		return one(upstream.InformationalFlood(s.N))
	case "echo_headers":
		return one(upstream.EchoJSON(status))
	case "echo_headers_urlencoded":
		return one(upstream.EchoURLEncoded(status))
	case "echo_in_response_header":
		return one(upstream.EchoInHeader(status))
	case "echo_gzip":
		return one(upstream.EchoGzip(status))
	case "echo_split_across_chunks":
		return one(upstream.EchoChunked(status, 7))
	case "echo_at_512":
		return one(upstream.EchoAt(status, 512, 12))
	case "close_reused_conn_after_read":
		// Weir never reuses a connection, so the warm-up request stands for the
		// one that would have been there before.
		return []upstream.Behaviour{upstream.OK(), upstream.CloseBeforeResponse()}, nil
	}
	return nil, fmt.Errorf("upstream behaviour %q", s.Behaviour)
}

// leadsBack reports whether a location is the row's own URL.
func (r *outboundRow) leadsBack(location string) bool {
	from, err := url.Parse(r.url())
	if err != nil {
		return false
	}
	to, err := from.Parse(location)
	return err == nil && strings.EqualFold(to.Scheme+"://"+to.Host, from.Scheme+"://"+from.Host) && to.RequestURI() == from.RequestURI()
}

// plainBehaviours need no more than their name.
var plainBehaviours = map[string]func() upstream.Behaviour{
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
	"h2_continuation_flood":      upstream.H2ContinuationFlood,
	"h2_ping_flood":              upstream.H2PingFlood,
	"h2_settings_flood":          upstream.H2SettingsFlood,
	"h2_hpack_bomb":              upstream.H2HpackBomb,
	"h2_rapid_reset":             upstream.H2RapidReset,
	"h2_rst_refused_stream":      upstream.H2RefusedStream,
	"h2_goaway":                  upstream.H2GoAway,
}

func respond(s behaviourSpec, status int) upstream.Behaviour {
	var headers []schemas.Header
	if s.ContentType != "" {
		headers = append(headers, upstream.Header("Content-Type", s.ContentType))
	} else if s.Headers["Content-Type"] == "" {
		headers = append(headers, upstream.Header("Content-Type", "application/json"))
	}
	for name, value := range s.Headers {
		headers = append(headers, upstream.Header(name, value))
	}
	return upstream.Respond(status, s.body(), headers...)
}

// malformed says what in a specification cannot be carried out as it is written.
func (s behaviourSpec) malformed() error {
	if _, err := written(s.BodyGen); err != nil {
		return err
	}
	if _, err := base64.StdEncoding.DecodeString(s.encoded()); err != nil {
		return fmt.Errorf("upstream body in base64: %w", err)
	}
	if strings.ContainsFunc(s.Bytes, func(r rune) bool { return r > 0xff }) {
		return errors.New("upstream bytes above U+00FF")
	}
	return nil
}

// body is what respond and respond_b64 answer with, in a specification that is not malformed.
func (s behaviourSpec) body() string {
	switch {
	case !absent(s.BodyGen):
		text, _ := written(s.BodyGen)
		return text
	case s.encoded() != "":
		raw, _ := base64.StdEncoding.DecodeString(s.encoded())
		return string(raw)
	}
	return s.Body
}

// encoded is the body that a specification has in base64.
func (s behaviourSpec) encoded() string {
	if s.Behaviour == "respond_b64" {
		return cmp.Or(s.BodyB64, s.Bytes, s.Body)
	}
	return s.BodyB64
}

// latin1 is the bytes that the code points up to 255 stand for.
func latin1(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func locations(raw json.RawMessage) []string {
	var many dnsAnswer // one or several, as there
	if absent(raw) || json.Unmarshal(raw, &many) != nil {
		return nil
	}
	return many
}

// coded is a body in the codings that its header names. The standard library
// writes gzip and deflate; of the others only the header is there.
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

// sequence reads steps: a status, a name, or a whole specification. Each but the
// last answers one request.
func (r *outboundRow) sequence(steps []json.RawMessage) ([]upstream.Behaviour, error) {
	var all []upstream.Behaviour
	for i, raw := range steps {
		var spec behaviourSpec
		switch {
		case json.Unmarshal(raw, &spec.Status) == nil:
			spec.Behaviour = "respond"
		case json.Unmarshal(raw, &spec.Behaviour) == nil:
		default:
			if err := readStrictly(raw, &spec); err != nil {
				return nil, fmt.Errorf("sequence step %s: %w", raw, err)
			}
		}
		some, err := r.script(spec)
		if err != nil {
			return nil, fmt.Errorf("sequence step %s: %w", raw, err)
		}
		if i < len(steps)-1 {
			some = some[:1]
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, errors.New("sequence without steps")
	}
	return all, nil
}
