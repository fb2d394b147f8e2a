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
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// maxAnswer bounds an answer that is one document, and one line or event of a stream, in bytes.
const maxAnswer = 8 << 20

// answer is what a target answered to one request, or an event of its stream.
type answer struct {
	id, task string // of the request
	// none says why there is no answer at all.
	none                string
	status              int
	mediaType, encoding string
	// doc is the document, an object; notDoc says why there is none.
	doc    gjson.Result
	notDoc string
	streamed
}

// ask sends one request and reads the document that answers it, or the stream.
func (p *prober) ask(ctx context.Context, method, path string, body []byte) *answer {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	within := func(d time.Duration, what string) *time.Timer {
		return time.AfterFunc(d, func() { cancel(late(what + " within " + d.String())) })
	}
	accept, whole, streams := "application/json", "no whole answer", path == schemas.RouteRunStream
	if streams {
		accept, whole = "text/event-stream", "no end"
	}
	end := within(p.cfg.Timeout, whole)
	defer end.Stop()
	first := end
	if streams {
		first = within(p.cfg.FirstEvent, "no event")
		defer first.Stop()
	}
	a := &answer{}
	resp, err := p.send(ctx, method, path, accept, body)
	if err != nil {
		a.none = why(ctx, err)
		return a
	}
	defer resp.Body.Close()
	a.status, a.encoding = resp.StatusCode, resp.Header.Get("Content-Encoding")
	a.mediaType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type")) // a malformed type fits no rule
	if !streams || a.status != http.StatusOK {
		a.read(ctx, resp.Body)
		return a
	}
	err = a.follow(resp.Body, func(e event) {
		first.Stop()
		if e.terminal() && a.ends == 1 {
			within(p.cfg.Grace, "not closed after the terminal event")
		}
	})
	if err != nil {
		a.stopped = why(ctx, err)
	}
	return a
}

// send sends one request. The body of the answer is the caller's to close.
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
func object(data []byte) (gjson.Result, string) {
	switch doc := gjson.ParseBytes(data); {
	case len(bytes.TrimSpace(data)) == 0:
		return gjson.Result{}, "nothing"
	case !utf8.Valid(data):
		return gjson.Result{}, "bytes that are not UTF-8"
	case !json.Valid(data):
		return gjson.Result{}, "no JSON: " + quote(string(data))
	case !doc.IsObject():
		return gjson.Result{}, "JSON that is no object: " + quote(string(data))
	default:
		return doc, ""
	}
}

// found is what a member of a document is, for a person.
func found(doc gjson.Result, name string) string {
	if !doc.Get(name).Exists() {
		return "there is no " + name
	}
	return name + " is " + cut(doc.Get(name+"|@ugly").Raw)
}

// failure is the code and the message of the error in a document, ready to be added. Its details may have a code
// that is closer to the cause.
func failure(doc gjson.Result) string {
	code, cause, message := doc.Get("error.code").Str, doc.Get("error.details.code").Str, doc.Get("error.message").Str
	if code == "" {
		return ""
	}
	text := "; its error is " + quote(code)
	if cause != "" {
		text += " (" + quote(cause) + ")"
	}
	if message != "" {
		text += ": " + quote(message)
	}
	return text
}

// kind is the kind of a value; empty: there is none.
func kind(v gjson.Result) string {
	kinds := map[byte]string{'{': "an object", '[': "a list", '"': "a string", 'n': "null", 't': "a boolean", 'f': "a boolean"}
	if !v.Exists() {
		return ""
	}
	return cmp.Or(kinds[v.Raw[0]], "a number")
}

// noText reports whether a value is no string.
func noText(v gjson.Result) bool { return v.Type != gjson.String }

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
