package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/schemas"
)

// Request is what goes out beside what the permit says: method, host and
// target are the permit's alone.
type Request struct {
	// Headers are the caller's.
	Headers []schemas.Header
	// Injected are the entry's own, secrets filled in. They replace the
	// caller's of the same name.
	Injected []schemas.Header
	// Body is sent as it is; an empty one is no body.
	Body []byte
	// ContentType and IdempotencyKey become header fields where Headers and
	// Injected have none of that name.
	ContentType    string
	IdempotencyKey string
}

// owned reports whether a field, in canonical case, frames, routes or
// negotiates. Policy refuses these at the door; that they are refused here
// again keeps a mistake there from becoming two requests on the wire.
func owned(name string) bool {
	switch name {
	case "Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	default:
		return false
	}
}

// userAgent stands where neither caller nor entry names one.
const userAgent = "weir"

// build makes the request of the permit's parts. The target goes on the wire
// byte for byte as policy matched it: nothing parses it again.
func build(ctx context.Context, p policy.Permit, r Request) (*http.Request, error) {
	target := p.RequestTarget()
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return nil, &fault.Call{Code: schemas.DenyURLInvalid, Cause: errors.New("the target is not a path")}
	}
	header, err := fields(r)
	if err != nil {
		return nil, &fault.Call{Code: schemas.DenyHeader, Cause: err}
	}
	// A partial or absent body cannot be told from a broken coding.
	if p.Method() == http.MethodHead || header["Range"] != nil {
		header["Accept-Encoding"] = []string{"identity"}
	} else {
		header["Accept-Encoding"] = []string{"gzip"}
	}
	host := p.Authority()
	req := &http.Request{
		Method: p.Method(),
		URL:    &url.URL{Scheme: p.Scheme(), Host: host, Opaque: target},
		Host:   host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          http.NoBody,
		ContentLength: int64(len(r.Body)),
		Close:         true,
	}
	if len(r.Body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(r.Body)) // and no GetBody: there is no second time
	}
	return req.WithContext(ctx), nil
}

// fields merges the request's header fields.
func fields(r Request) (http.Header, error) {
	header := make(http.Header, len(r.Headers)+len(r.Injected)+4)
	for _, h := range r.Headers {
		if err := usable(h); err != nil {
			return nil, err
		}
		header.Add(h.Name, h.Value)
	}
	for _, h := range r.Injected {
		if err := usable(h); err != nil {
			return nil, err
		}
		header.Del(h.Name)
	}
	for _, h := range r.Injected {
		header.Add(h.Name, h.Value)
	}
	for name, value := range map[string]string{
		"Content-Type": r.ContentType, "Idempotency-Key": r.IdempotencyKey, "User-Agent": userAgent,
	} {
		if header[name] == nil && value != "" {
			if err := usable(schemas.Header{Name: name, Value: value}); err != nil {
				return nil, err
			}
			header[name] = []string{value}
		}
	}
	return header, nil
}

// usable refuses owned fields, names that are no token and values that could
// end their line. The value is never part of the error.
func usable(h schemas.Header) error {
	if h.Name == "" {
		return errors.New("a header field has no name")
	}
	for i := range len(h.Name) {
		if !tokenByte(h.Name[i]) {
			return errors.New("a header field's name is not a token")
		}
	}
	if owned(http.CanonicalHeaderKey(h.Name)) {
		return fmt.Errorf("header field %s belongs to the connection", h.Name)
	}
	for i := range len(h.Value) {
		if c := h.Value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the value of header field %s has a control character", h.Name)
		}
	}
	return nil
}

func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
