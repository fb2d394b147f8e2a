package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Echoed is the request's headers as a JSON object: what an upstream that
// repeats everything tells.
func Echoed(r Received) string {
	fields := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		fields[h.Name] = h.Value
	}
	text, err := json.Marshal(map[string]any{"headers": fields})
	if err != nil {
		panic("upstream: strings that are not JSON: " + err.Error())
	}
	return string(text)
}

// EchoJSON answers with a status and Echoed.
func EchoJSON(status int) Behaviour {
	return echo(func(x *Exchange) string {
		return Message(x.Request.Method, status, Echoed(x.Request), Header("Content-Type", "application/json"))
	})
}

// EchoURLEncoded answers with each header's value percent-encoded twice over:
// as a form does it, and byte for byte.
func EchoURLEncoded(status int) Behaviour {
	return echo(func(x *Exchange) string {
		var b strings.Builder
		for _, h := range x.Request.Headers {
			b.WriteString(url.QueryEscape(h.Name) + "=" + url.QueryEscape(h.Value) + "&all=")
			for i := range len(h.Value) {
				fmt.Fprintf(&b, "%%%02X", h.Value[i])
			}
			b.WriteByte('&')
		}
		return Message(x.Request.Method, status, b.String(), Header("Content-Type", "text/plain"))
	})
}

// EchoInHeader repeats the request's headers in headers of the answer: a free
// one, a cookie and a location.
func EchoInHeader(status int) Behaviour {
	return echo(func(x *Exchange) string {
		secret := x.Request.Header("Authorization")
		return Message(x.Request.Method, status, `{"ok":true}`,
			Header("Content-Type", "application/json"), Header("X-Echo", secret),
			Header("Set-Cookie", "session="+strings.ReplaceAll(secret, " ", "_")),
			Header("Location", "/v1/echo?"+url.QueryEscape(secret)), Header("ETag", fmt.Sprintf("%q", secret)))
	})
}

// EchoGzip is EchoJSON, compressed.
func EchoGzip(status int) Behaviour {
	return echo(func(x *Exchange) string {
		return Message(x.Request.Method, status, Compress(Echoed(x.Request)),
			Header("Content-Type", "application/json"), Header("Content-Encoding", "gzip"))
	})
}

// EchoChunked is EchoJSON in chunks of n bytes, each written by itself.
func EchoChunked(status, n int) Behaviour {
	return Answer(func(x *Exchange) {
		x.Write(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", status, http.StatusText(status)))
		for text := Echoed(x.Request); text != ""; {
			part := text[:min(n, len(text))]
			text = text[len(part):]
			x.Write(fmt.Sprintf("%x\r\n%s\r\n", len(part), part))
		}
		x.Write("0\r\n\r\n")
		x.KeepAlive()
	})
}

// EchoAt answers with text in which the value of Authorization begins back
// bytes before place: whoever cuts there cuts through it.
func EchoAt(status, place, back int) Behaviour {
	return echo(func(x *Exchange) string {
		secret := x.Request.Header("Authorization")
		text := strings.Repeat("A", max(0, place-back)) + secret + " and more"
		return Message(x.Request.Method, status, text, Header("Content-Type", "text/plain"))
	})
}

func echo(message func(*Exchange) string) Behaviour {
	return Answer(func(x *Exchange) {
		x.Write(message(x))
		x.KeepAlive()
	})
}
