// Package client is a client of Weir's HTTP API. It has the routes of the OpenAPI document
// (`weir schema openapi`), its documents the types of weir/schemas. All functions take a context, are
// safe for concurrent use and repeat nothing by themselves, unless they say so.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/net/http/httpguts"

	"weir/schemas"
)

// Client sends requests to one Weir.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a client for the Weir at a URL, such as http://127.0.0.1:8092. Without a token, no
// Authorization is sent, which an open node permits. It follows no redirects, so that the token
// goes nowhere else.
func New(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, &RequestError{fmt.Errorf("%q is not an http or https URL; write http:// or https:// before the host, such as http://127.0.0.1:8092", base)}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimRight(base, "/"), token: token, http: &http.Client{CheckRedirect: stay}}, nil
}

// BaseURL is the URL of the Weir, without a slash at its end.
func (c *Client) BaseURL() string { return c.base }

// Token is the token that the client sends; empty: none.
func (c *Client) Token() string { return c.token }

// As returns the client with another token.
func (c *Client) As(token string) *Client {
	other := *c
	other.token = token
	return &other
}

// RequestError is a request that cannot be made from its arguments; nothing was sent.
type RequestError struct{ error }

// Unwrap returns what is wrong.
func (e *RequestError) Unwrap() error { return e.error }

// UnreachableError reports that nothing listens at the URL; nothing was sent.
type UnreachableError struct{ BaseURL string }

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no server answers at %s; `weir serve` starts one", e.BaseURL)
}

// Error is an answer that is an error.
type Error struct {
	// Status is the answer's HTTP status.
	Status int
	// Problem is the answer, or zero if it is not a problem of Weir's.
	Problem schemas.Problem
	// Body is the answer as it came, if it is a problem.
	Body json.RawMessage
	text string
}

func (e *Error) Error() string { return e.text }

// Do sends one request, whose body is encoded as JSON; nil: none, and bytes: as they are. The body of
// the answer is the caller's to close. An answer with any status is no error, unless it is not of a Weir.
func (c *Client) Do(ctx context.Context, method, path string, header http.Header, body any) (*http.Response, error) {
	data, raw := body.([]byte)
	if body != nil && !raw {
		var err error
		if data, err = Encode(body); err != nil {
			return nil, &RequestError{err}
		}
	}
	req, err := c.request(ctx, method, path, header, data)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &UnreachableError{c.base}
	}
	if err != nil {
		return nil, err
	}
	if err := c.foreign(resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// foreign is the error for an answer that is no refusal and not of a Weir: each of those has an id.
func (c *Client) foreign(resp *http.Response) error {
	if resp.StatusCode >= http.StatusBadRequest || resp.Header.Get("X-Request-Id") != "" {
		return nil
	}
	return fmt.Errorf("the server at %s is no Weir: its answer %s has no X-Request-Id; check --server or WEIR_URL", c.base, resp.Status)
}

// Encode is JSON whose texts stay as they are: json.Marshal escapes <, > and & in them.
func Encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (c *Client) request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, &RequestError{err}
	}
	maps.Copy(req.Header, header)
	for name, values := range header {
		if slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil, &RequestError{fmt.Errorf("the header %s has a control character; leave it out", name)}
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// Call sends one request and decodes the JSON document that answers it. A status of 400 or more
// is an *Error. An answer without content leaves the document as it is; a nil document is not read.
func (c *Client) Call(ctx context.Context, method, path string, header http.Header, body, into any) error {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept", "application/json")
	resp, err := c.Do(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return ErrorOf(resp)
	}
	if into == nil || resp.StatusCode == http.StatusNoContent {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		return err
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// Get reads the document of a route, such as a schemas.Page of what the route lists.
func Get[T any](ctx context.Context, c *Client, path string, query url.Values) (doc T, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err = c.Call(ctx, http.MethodGet, path, nil, nil, &doc)
	return doc, err
}

// Post sends a document to a route, nil: none, and returns the document that answers it.
func Post[T any](ctx context.Context, c *Client, path string, body any) (doc T, err error) {
	err = c.Call(ctx, http.MethodPost, path, nil, body, &doc)
	return doc, err
}

// NewError returns an error for an answer in another form than a problem.
func NewError(status int, text string, body json.RawMessage) *Error {
	return &Error{Status: status, Body: body, text: text}
}

// ErrorOf reads an answer that is an error, with what to do about it.
func ErrorOf(resp *http.Response) error {
	var p schemas.Problem
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Title == "" {
		return &Error{Status: resp.StatusCode, text: "the server answered " + resp.Status}
	}
	said := cmp.Or(p.Detail, p.Title)
	if hint := TokenHint(resp, p.Code); hint != "" {
		said += "; " + hint
	}
	return &Error{resp.StatusCode, p, raw, fmt.Sprintf("%s (%s)", said, p.Code)}
}

// TokenHint says what to do about a token that is missing or does not suffice; empty for other
// errors.
func TokenHint(resp *http.Response, code schemas.Code) string {
	sent := resp.Request != nil && resp.Request.Header.Get("Authorization") != ""
	switch {
	case code == schemas.Unauthorized && sent:
		return "the token that was sent is unknown here, has expired or was revoked: an admin makes another with `weir tokens create`"
	case code == schemas.Unauthorized:
		return "set $WEIR_TOKEN or name a file with --token-file, such as the admin.token in the server's data directory; an admin makes others with `weir tokens create`"
	case code == schemas.Forbidden && sent:
		return "an admin makes a token that may with `weir tokens create`"
	default:
		return ""
	}
}
