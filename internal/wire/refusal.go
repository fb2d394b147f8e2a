package wire

import (
	"bytes"

	"weir/schemas"
)

// What net/http writes to a connection whose request it cannot read: a status
// line, exactly these headers, and a text.
const (
	statusStart = "HTTP/1.1 "
	plainHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	// refusalMax is longer than all of them.
	refusalMax = 512
)

// refusal recognizes such an answer in a write while no handler answers: within
// an answer, the same bytes are somebody's content. Should net/http word it
// otherwise one day, its own text goes out.
func refusal(p []byte) (schemas.Code, bool) {
	if len(p) > refusalMax || !bytes.HasPrefix(p, []byte(statusStart)) {
		return "", false
	}
	if bytes.HasPrefix(p, []byte(statusStart+"417 ")) && bytes.HasSuffix(p, []byte("\r\n\r\n")) {
		return schemas.InvalidRequest, true // an expectation that is not 100-continue; no handler says it
	}
	line, _, ok := bytes.Cut(p, []byte(plainHeader))
	if !ok || bytes.ContainsAny(line, "\r\n") {
		return "", false
	}
	if bytes.HasPrefix(line, []byte(statusStart+"431 ")) {
		return schemas.HeadersTooLarge, true
	}
	return schemas.InvalidRequest, true
}
