package corpus_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
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

// behaviours gives the script of a row's upstream; false for a behaviour that
// the kit does not have. What a row does to TLS or to the wire is not in it.
func behaviours(s behaviourSpec) ([]upstream.Behaviour, bool) {
	one := func(b upstream.Behaviour) ([]upstream.Behaviour, bool) { return []upstream.Behaviour{b}, true }
	status := s.Status
	if status == 0 {
		status = http.StatusOK
	}
	if b, ok := plainBehaviours[s.Behaviour]; ok {
		return one(b())
	}
	if strings.HasPrefix(s.Behaviour, "tls_") {
		return one(upstream.OK())
	}
	interval := time.Second / time.Duration(max(1, s.BPS))
	switch s.Behaviour {
	case "respond", "respond_b64":
		return one(respond(s, status))
	case "raw":
		return one(upstream.Raw(latin1(s.Bytes)))
	case "redirect":
		return []upstream.Behaviour{upstream.Redirect(status, locations(s.Location)...), upstream.OK()}, true
	case "redirect_chain":
		var chain []upstream.Behaviour
		for hop := range s.Hops {
			chain = append(chain, upstream.Redirect(http.StatusFound, "/v1/hop"+itoa(hop+1)))
		}
		return append(chain, upstream.OK()), true
	case "sequence":
		return sequence(s.Steps)
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
		return []upstream.Behaviour{upstream.OK(), upstream.CloseBeforeResponse()}, true
	}
	return nil, false
}

// plainBehaviours need no more than their name.
var plainBehaviours = map[string]func() upstream.Behaviour{
	"ok":                         upstream.OK,
	"connect_refused":            upstream.OK,
	"syn_blackhole":              upstream.OK,
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

func (s behaviourSpec) body() string {
	switch {
	case !absent(s.BodyGen):
		return written(s.BodyGen)
	case s.BodyB64 != "":
		raw, err := base64.StdEncoding.DecodeString(s.BodyB64)
		if err != nil {
			return "not base64"
		}
		return string(raw)
	case s.Bytes != "":
		if raw, err := base64.StdEncoding.DecodeString(s.Bytes); err == nil {
			return string(raw)
		}
	}
	return s.Body
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

// coded is a body in the coding that its header tells of, as far as we speak it.
func coded(value string) string {
	body := `{"ok":true}`
	for coding := range strings.SplitSeq(value, ",") {
		if c := strings.ToLower(strings.TrimSpace(coding)); c == "gzip" || c == "x-gzip" {
			body = upstream.Compress(body)
		}
	}
	return body
}

// sequence reads steps: a status, a name, or a whole specification.
func sequence(steps []json.RawMessage) ([]upstream.Behaviour, bool) {
	var all []upstream.Behaviour
	for _, raw := range steps {
		var spec behaviourSpec
		switch {
		case json.Unmarshal(raw, &spec.Status) == nil:
			spec.Behaviour = "respond"
		case json.Unmarshal(raw, &spec.Behaviour) == nil:
		case json.Unmarshal(raw, &spec) != nil:
			return nil, false
		}
		some, ok := behaviours(spec)
		if !ok {
			return nil, false
		}
		all = append(all, some...)
	}
	return all, len(all) > 0
}
