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
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxAnswer bounds an answer that is one document, in bytes.
const maxAnswer = 8 << 20

// answer is what a target answered to one request, or an event of its stream.
type answer struct {
	id, task string // of the request
	// none says why there is no answer at all.
	none                string
	status              int
	mediaType, encoding string
	// doc is the document; notDoc says why there is none.
	doc    document
	notDoc string
	streamed
}

type document map[string]json.RawMessage

// ask sends one request and reads the document that answers it.
func (p *prober) ask(ctx context.Context, method, path string, body []byte) *answer {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout, late("no whole answer within "+p.cfg.Timeout.String()))
	defer cancel()
	a, content := p.send(ctx, method, path, "application/json", body)
	if content != nil {
		defer content.Close()
		a.read(ctx, content)
	}
	return a
}

// read reads the document that a body is, or says what is there instead.
func (a *answer) read(ctx context.Context, body io.Reader) {
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		a.notDoc = why(ctx, err)
	case len(data) > maxAnswer:
		a.notDoc = "more than " + strconv.Itoa(maxAnswer>>20) + " MiB"
	default:
		a.doc, a.notDoc = object(data)
	}
}

// send sends one request. The body of the answer is nil if there is none, and else the caller's to close.
func (p *prober) send(ctx context.Context, method, path, accept string, body []byte) (*answer, io.ReadCloser) {
	a := &answer{}
	req, err := http.NewRequestWithContext(ctx, method, p.target.URL+path, bytes.NewReader(body))
	if err != nil {
		a.none = why(ctx, err)
		return a, nil
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.cfg.Token)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		a.none = why(ctx, err)
		return a, nil
	}
	a.status, a.encoding = resp.StatusCode, resp.Header.Get("Content-Encoding")
	a.mediaType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type")) // a malformed type fits no rule
	return a, resp.Body
}

// late is the cause of a context's end: a limit of the check passed.
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

// text is a member that is a string; empty: it is none.
func (d document) text(name string) (text string) {
	_ = json.Unmarshal(d[name], &text)
	return text
}

// found is what a member is, for a person.
func (d document) found(name string) string {
	raw, ok := d[name]
	if !ok {
		return "there is no " + name
	}
	return name + " is " + cut(string(compact(raw)))
}

// fault is the error in a document, as far as it has the contract's form. Its details may have a code
// that is closer to the cause.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details struct {
		Code string `json:"code"`
	} `json:"details"`
}

func (d document) fault() (f fault) {
	_ = json.Unmarshal(d["error"], &f) // a member of another kind stays empty
	return f
}

// failure is the code and the message of an error, ready to be added.
func (d document) failure() string {
	said := d.fault()
	if said.Code == "" {
		return ""
	}
	text := "; its error is " + quote(said.Code)
	if said.Details.Code != "" {
		text += " (" + quote(said.Details.Code) + ")"
	}
	if said.Message != "" {
		text += ": " + quote(said.Message)
	}
	return text
}

// kind is the kind of a value; empty: there is none.
func kind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return ""
	}
	kinds := map[byte]string{'{': "an object", '[': "a list", '"': "a string", 'n': "null", 't': "a boolean", 'f': "a boolean"}
	return cmp.Or(kinds[raw[0]], "a number")
}

// texts reports whether a list holds strings alone.
func texts(raw json.RawMessage) bool {
	var all []*string
	return json.Unmarshal(raw, &all) == nil && !slices.Contains(all, nil)
}

func compact(raw json.RawMessage) []byte {
	var line bytes.Buffer
	_ = json.Compact(&line, raw) // it is a member of a document, so that it is JSON
	return line.Bytes()
}

// most is how much of a text from outside is repeated, in characters.
const most = 160

// quote is the beginning of untrusted text, on one line.
func quote(text string) string { return strconv.Quote(cut(text)) }

func cut(text string) string {
	if r := []rune(text[:min(len(text), utf8.UTFMax*(most+1))]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
