package check

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"
)

// maxAnswer bounds an answer that is one document, in bytes.
const maxAnswer = 8 << 20

// head is the head of an answer.
type head struct {
	// none says why there is no answer at all; the rest is empty then.
	none      string
	status    int
	mediaType string
	encoding  string
}

// answer is an answer that is one document.
type answer struct {
	head
	// doc is the document; notDoc says why there is none.
	doc    document
	notDoc string
}

type document map[string]json.RawMessage

// ask sends one request and reads the document that answers it.
func (p *prober) ask(ctx context.Context, method, path string, body []byte) (a answer) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout, late("no whole answer within "+p.cfg.Timeout.String()))
	defer cancel()
	resp, err := p.send(ctx, method, path, "application/json", body)
	if err != nil {
		a.none = why(ctx, err)
		return a
	}
	defer resp.Body.Close()
	a.head = headOf(resp)
	a.doc, a.notDoc = read(ctx, resp.Body)
	return a
}

// read reads the document that a body is, or says what is there instead.
func read(ctx context.Context, body io.Reader) (document, string) {
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, why(ctx, err)
	case len(data) > maxAnswer:
		return nil, "more than " + strconv.Itoa(maxAnswer>>20) + " MiB"
	default:
		return object(data)
	}
}

func (p *prober) send(ctx context.Context, method, path, accept string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.target.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.cfg.Token)
	}
	return p.client.Do(req)
}

func headOf(resp *http.Response) head {
	h := head{status: resp.StatusCode, encoding: resp.Header.Get("Content-Encoding")}
	h.mediaType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type")) // what is no media type is none that fits
	return h
}

// late is a limit of ours that passed: the cause of a context's end.
type late string

func (l late) Error() string { return string(l) }

// why says for a person why there is no answer, or no more of it.
func why(ctx context.Context, err error) string {
	unanswered, none := errors.AsType[*url.Error](err)
	passed, over := errors.AsType[late](context.Cause(ctx))
	switch {
	case over:
		return string(passed)
	case context.Cause(ctx) != nil:
		return "the check was stopped"
	case errors.Is(err, errTooLong):
		return errTooLong.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke before the end of the answer"
	case none: // its own text repeats the method and the URL
		return "no answer: " + quote(unanswered.Err.Error())
	default:
		return "no readable answer: " + quote(err.Error())
	}
}

// object reads one JSON object, or says what is there instead.
func object(data []byte) (document, string) {
	var doc document
	switch err := json.Unmarshal(data, &doc); {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, "nothing"
	case !utf8.Valid(data):
		return nil, "bytes that are not UTF-8"
	case !json.Valid(data):
		return nil, "no JSON: " + quote(string(data))
	case err != nil || doc == nil:
		return nil, "JSON that is no object: " + quote(string(data))
	}
	return doc, ""
}

// text is a member that is a string which is not empty.
func (d document) text(name string) (string, bool) {
	var s *string
	if err := json.Unmarshal(d[name], &s); err != nil || s == nil || *s == "" {
		return "", false
	}
	return *s, true
}

func (d document) says(name string, value bool) bool {
	return string(d[name]) == strconv.FormatBool(value)
}

// object reports whether a member is an object.
func (d document) object(name string) bool { return kind(d[name]) == "an object" }

// found is what a member is, for a person.
func (d document) found(name string) string {
	raw, ok := d[name]
	if !ok {
		return "there is no " + name
	}
	return name + " is " + written(raw)
}

func kind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "absent"
	}
	kinds := map[byte]string{'{': "an object", '[': "a list", '"': "a string", 'n': "null", 't': "a boolean", 'f': "a boolean"}
	return cmp.Or(kinds[raw[0]], "a number")
}
