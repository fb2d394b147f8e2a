package outbound

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

// Request is the part of a call that the permit does not have. Method, host and target are the
// permit's alone, but for the parameters that the entry adds.
type Request struct {
	// Headers are the caller's.
	Headers []schemas.Header
	// Injected are the entry's own, secrets filled in. They replace the
	// caller's of the same name.
	Injected []schemas.Header
	// Query are the entry's own parameters, name and value as they are meant.
	// They follow the permit's query, of which no byte is changed.
	Query []schemas.Header
	// Body is sent as it is; an empty one is no body.
	Body []byte
	// Stream is a body that is read while it is sent, in chunks and in place of Body. It is read
	// once, and closed at its end or the end of the exchange, whichever is first: Close may be
	// called from any goroutine and must interrupt a running Read. If Stream fails, the exchange
	// ends, so that the received part is no complete request; the error is CANCELED and wraps
	// ErrBody and Stream's error. An answer that arrives before the body's end is read as any
	// other. Nil: none.
	Stream io.ReadCloser
	// Length is how many bytes Stream has, if that is known: then it is sent as one piece of that length.
	// A stream with fewer breaks off. 0: unknown.
	Length int64
	// Begun is called once, on any goroutine, when the request's first bytes are out of our hands, that
	// is when the connection took them or failed to; or never, if it was closed or spent before. A
	// request of which nothing was offered by then never leaves. Nil: no callback.
	Begun func()
	// ContentType and IdempotencyKey become header fields where Headers and
	// Injected have none of that name. The permit names the field of the key.
	ContentType    string
	IdempotencyKey string
}

// userAgent is sent if neither caller nor entry sets one.
const userAgent = "weir"

// request makes the request from the parts of the permit. The target is sent byte for byte as policy
// matched it and is not parsed again. identity requests an answer without a content coding.
func (c *Conn) request(r *Request, identity bool) (*http.Request, error) {
	p := c.permit
	target := p.RequestTarget()
	if len(r.Query) > 0 {
		target = extend(target, r.Query)
	}
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return nil, &fault.Call{Code: schemas.DenyURLInvalid, Cause: errors.New("the target is not a path")}
	}
	header, err := fields(r, p.KeyHeader())
	if err != nil {
		return nil, &fault.Call{Code: schemas.DenyHeader, Cause: err}
	}
	// A partial or absent body cannot be distinguished from a broken coding.
	if identity || p.Method() == http.MethodHead || header["Range"] != nil {
		header["Accept-Encoding"] = []string{"identity"}
	} else {
		header["Accept-Encoding"] = []string{"gzip"}
	}
	host := p.Authority()
	req := &http.Request{
		Method:        p.Method(),
		URL:           &url.URL{Scheme: p.Scheme(), Host: host, Opaque: target},
		Host:          host,
		Header:        header,
		Body:          http.NoBody,
		ContentLength: int64(len(r.Body)),
		Close:         !c.keep,
	}
	switch {
	case c.body != nil:
		req.Body, req.ContentLength = (*source)(c), cmp.Or(r.Length, -1) // neither has this one a GetBody
	case len(r.Body) > 0:
		req.Body = io.NopCloser(failpoint.Halfway(failpoint.MidBody, target, bytes.NewReader(r.Body), len(r.Body))) // and no GetBody: there is no second time
	}
	return req, nil
}

// fields merges the request's header fields. The idempotency key goes out as the header key.
func fields(r *Request, key string) (http.Header, error) {
	header := make(http.Header, len(r.Headers)+len(r.Injected)+4)
	own := []schemas.Header{{Name: "User-Agent", Value: userAgent}, {Name: "Content-Type", Value: r.ContentType}, {Name: key, Value: r.IdempotencyKey}}
	own = slices.DeleteFunc(own, func(h schemas.Header) bool { return h.Value == "" })
	for _, list := range [...][]schemas.Header{own, r.Headers, r.Injected} { // each replaces those before
		for _, h := range list {
			if err := usable(h); err != nil {
				return nil, err
			}
			header.Del(h.Name)
		}
		for _, h := range list {
			header.Add(h.Name, h.Value)
		}
	}
	return header, nil
}

// usable refuses names that are no token, values that could end their line, and fields that frame,
// route or negotiate. Policy refuses these on ingress; that they are refused here again keeps a
// mistake there from becoming two requests on the wire. Neither is part of the error: both may be
// the caller's.
func usable(h schemas.Header) error {
	switch {
	case !httpguts.ValidHeaderFieldName(h.Name):
		return errors.New("a header field's name is not a token")
	case !httpguts.ValidHeaderFieldValue(h.Value):
		return errors.New("a header field's value has a control character")
	}
	switch http.CanonicalHeaderKey(h.Name) {
	case "Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return errors.New("a header field belongs to the connection")
	}
	return nil
}

// extend adds parameters to a target. All but RFC 3986's unreserved characters are written as %XX, so
// that every reader of a query, of the form kind too, finds the same text in it.
func extend(target string, query []schemas.Header) string {
	mark := strings.IndexByte(target, '?')
	switch {
	case mark < 0:
		target += "?"
	case mark < len(target)-1 && !strings.HasSuffix(target, "&"):
		target += "&"
	}
	pairs := make([]string, len(query))
	for i, q := range query {
		pairs[i] = escape(q.Name) + "=" + escape(q.Value)
	}
	return target + strings.Join(pairs, "&")
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
