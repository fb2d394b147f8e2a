package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// OK answers 200 {"ok":true}.
func OK() Behaviour {
	return Respond(http.StatusOK, `{"ok":true}`, Header("Content-Type", "application/json"))
}

// Header is a header field.
func Header(name, value string) schemas.Header { return schemas.Header{Name: name, Value: value} }

// Respond answers with a status, a body of its true length and header fields,
// and keeps the connection. HEAD, 204 and 304 get no body.
func Respond(status int, body string, headers ...schemas.Header) Behaviour {
	return Answer(func(x *Exchange) {
		x.Write(Message(x.Request.Method, status, body, headers...))
		x.KeepAlive()
	})
}

// Message is a well-formed answer to a request with this method.
func Message(method string, status int, body string, headers ...schemas.Header) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, h := range headers {
		b.WriteString(h.Name + ": " + h.Value + "\r\n")
	}
	if status != http.StatusNoContent {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n")
	if method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified {
		b.WriteString(body)
	}
	return b.String()
}

// Raw answers with these bytes and closes.
func Raw(text string) Behaviour { return Answer(func(x *Exchange) { x.Write(text) }) }

// RawOpen answers with these bytes and leaves the connection open.
func RawOpen(text string) Behaviour {
	return Answer(func(x *Exchange) {
		x.Write(text)
		x.Await()
	})
}

// Redirect answers with a status and any number of Location fields.
func Redirect(status int, locations ...string) Behaviour {
	var headers []schemas.Header
	for _, l := range locations {
		headers = append(headers, Header("Location", l))
	}
	return Respond(status, "", headers...)
}

// Hold waits until release is closed, then does what next does.
func Hold(release <-chan struct{}, next Behaviour) Behaviour {
	return Answer(func(x *Exchange) {
		select {
		case <-release:
			next.answer(x)
		case <-x.Stopped():
		}
	})
}

// Drip answers with text, a byte each interval, and stops when nobody listens.
func Drip(interval time.Duration, text string) Behaviour {
	return Answer(func(x *Exchange) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for i := range len(text) {
			select {
			case <-tick.C:
			case <-x.Stopped():
				return
			}
			if !x.Write(text[i : i+1]) {
				return
			}
		}
	})
}

// SlowHeaders sends endless headers, a byte each interval.
func SlowHeaders(interval time.Duration) Behaviour {
	return Drip(interval, "HTTP/1.1 200 OK\r\nX-Slow: "+strings.Repeat("a", 60<<10))
}

// SlowBody sends whole headers and then a body, a byte each interval.
func SlowBody(interval time.Duration) Behaviour {
	drip := Drip(interval, strings.Repeat("a", 60<<10))
	return Answer(func(x *Exchange) {
		if x.Write("HTTP/1.1 200 OK\r\nContent-Length: 61440\r\n\r\n") {
			drip.answer(x)
		}
	})
}
