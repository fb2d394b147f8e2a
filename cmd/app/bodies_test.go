package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	egressexecutor "weir/egress/executor"
	ingressexecutor "weir/ingress/executor"
	"weir/ingress/strict"
	"weir/internal/jsonschema"
	"weir/internal/ledger"
	"weir/internal/redact"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/permit"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
	"weir/processors/call/dial"
	"weir/schemas"
)

// mediaTypes are of text, of JSON, of bytes, and none.
var mediaTypes = []string{
	"", "=", "text/plain", "text/html; charset=iso-8859-1", "application/json", "application/problem+json", "application/xml",
	"image/svg+xml", "image/png", "application/octet-stream", "application/x-ndjson", "application/x-www-form-urlencoded",
	"multipart/mixed; boundary=b", "application/yaml", "application/zip", "video/mp4", "application/graphql", "text/event-stream",
}

// anyBody is JSON, text, nearly UTF-8 or bytes.
func anyBody(r *rand.Rand) []byte {
	pieces := []string{"a", " ", "\n", "\"", "\\", "<&>", "é", "😀", "\u2028", "\ufffd", "\x00", "\x1b", "\xff", "\xc3", "{", "}", "[1,2.50]", "null", "1e400", "\ufeff", "\r\n"}
	switch r.IntN(4) {
	case 0:
		return fmt.Appendf(nil, ` {"n":%g,"s":%s,"l": [null,true,%d]}`, r.Float64(), dial.Quoted(pieces[r.IntN(len(pieces))]), r.Int64())
	case 1:
		raw := make([]byte, r.IntN(200))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		return raw
	default:
		var b bytes.Buffer
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.Bytes()
	}
}

// TestBodiesStayAsTheyAre: of random bodies, each form that can hold it is sent as its bytes, after the call was stored
// and read again. An answer with it of any media type is rendered with the bytes that came. JSON may lose the white space
// between its values.
func TestBodiesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	permits, r, scrub, shown := permit.Hosts(t, "h"), rand.New(rand.NewPCG(3, 4)), redact.Values([]string{"no answer holds this"}), map[string]int{}
	for i := range table.Rounds(10_000) {
		raw, media := anyBody(r), mediaTypes[i%len(mediaTypes)]
		forms := map[string]any{"body_base64": raw}
		if utf8.Valid(raw) {
			forms["body_text"] = string(raw)
		}
		if strict.Check(raw, strict.Limits{}) == nil && string(bytes.TrimSpace(raw)) != "null" {
			forms["body"] = json.RawMessage(raw)
		}
		for name, value := range forms {
			request, err := ledger.Encode(map[string]any{"method": "POST", "url": "http://h/", name: value, "headers": map[string]string{"Content-Type": media}})
			require.NoError(t, err)
			translated, err := ingressexecutor.Translate(request, permits, new(jsonschema.Cache))
			require.NoError(t, err, "%s", request)
			stored, err := ledger.Encode(translated.Call)
			require.NoError(t, err)
			call := fixture.Decode[schemas.HTTPCall](t, stored)
			sent, err := call.Sent()
			require.NoError(t, err)
			if name == "body" {
				require.Equal(t, compact(t, raw), compact(t, sent), "%s", request)
				continue
			}
			require.Equal(t, string(raw), string(sent), "%s: %s", name, request)
			require.Equal(t, len(raw), call.SentSize())
		}
		form, got := rendered(t, raw, media, scrub)
		if shown[form]++; form == "JSON" {
			raw = []byte(compact(t, raw))
		}
		require.Equal(t, string(raw), got, "%s of %q", form, media)
		require.True(t, form != "base64" || !utf8.Valid(raw) || strings.ContainsAny(media, "/"), "%q %q", media, raw)
	}
	for _, form := range []string{"JSON", "text", "base64"} {
		require.Greater(t, shown[form], table.Rounds(500), form)
	}
}

// compact is JSON without the white space between its values.
func compact(t *testing.T, doc []byte) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, doc))
	return b.String()
}

// rendered is an answer's body as a caller has it, and its form.
func rendered(t *testing.T, raw []byte, media string, scrub *redact.Scrubber) (form, body string) {
	t.Helper()
	answer := schemas.Answer{Status: 200}
	dial.PutBody(&answer, raw, media, scrub)
	stored, err := ledger.Encode(schemas.HTTPResult{Answer: &answer})
	require.NoError(t, err)
	_, doc, err := egressexecutor.Render(schemas.Ref{}, &schemas.Settled{Outcome: schemas.OutcomeSucceeded}, stored)
	require.NoError(t, err)
	shown := fixture.Decode[schemas.ExecuteOutcome](t, doc)
	switch {
	case len(raw) == 0:
		require.Equal(t, "null", string(shown.Body))
		return "none", ""
	case answer.JSON:
		return "JSON", compact(t, shown.Body)
	case shown.BodyEncoding == "base64":
		require.True(t, utf8.ValidString(answer.Snippet))
		got := fixture.Decode[[]byte](t, shown.Body)
		return "base64", string(got)
	default:
		require.NoError(t, json.Unmarshal(shown.Body, &body))
		return "text", body
	}
}

// pixel is the smallest PNG.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestFormsFilesAndPictures: a form, an upload and a picture pass through a whole node as any HTTP API
// sends and takes them, and from a mock that was made of the answer.
func TestFormsFilesAndPictures(t *testing.T) {
	t.Parallel()
	png, err := base64.StdEncoding.DecodeString(pixel)
	require.NoError(t, err)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/form":
			assert.NoError(t, r.ParseForm())
			fmt.Fprintf(w, "%s|%v|%s", r.Header.Get("Content-Type"), r.PostForm["items[]"], r.PostForm.Get("note"))
		case "/upload":
			assert.NoError(t, r.ParseMultipartForm(1<<20))
			file, head, err := r.FormFile("picture")
			if !assert.NoError(t, err) {
				return
			}
			data, err := io.ReadAll(file)
			assert.NoError(t, err)
			assert.Equal(t, png, data)
			fmt.Fprintf(w, "%s|%s|%s", head.Filename, head.Header.Get("Content-Type"), r.FormValue("title"))
		case "/echo":
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, err := io.Copy(w, r.Body)
			assert.NoError(t, err)
		default:
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(png)
		}
	}))
	t.Cleanup(target.Close)
	c := tenant(t, "bodies")
	ask := func(path, members string) (got schemas.ExecuteOutcome) {
		t.Helper()
		text, _ := c.does(t, http.StatusOK, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"POST","url":"%s/%s",%s}`, target.URL, path, members))
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		return got
	}
	const upload = `"form":{"title":"a dot","picture":{"filename":"dot.png","content_type":"image/png","base64":"` + pixel + `"}}`
	got := ask("form", `"form":{"items[]":["b & c",1.50,true],"note":"é"}`)
	assert.JSONEq(t, `"application/x-www-form-urlencoded|[b & c 1.50 true]|é"`, string(got.Body))
	got = ask("upload", upload)
	assert.JSONEq(t, `"dot.png|image/png|a dot"`, string(got.Body))
	got = ask("picture", `"body_text":""`)
	assert.Equal(t, []string{`"` + pixel + `"`, "base64"}, []string{string(got.Body), got.BodyEncoding})
	got = ask("echo", `"body_text":"<a>é</a>","headers":{"Content-Type":"application/xml"}`)
	assert.JSONEq(t, `"<a>é</a>"`, string(got.Body))
	_, h := c.does(t, http.StatusOK, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/picture"}`, target.URL))
	c.ruled(t, "record", h.Get("Weir-Action-Id"))
	require.Contains(t, c.ruled(t, "list", "--json"), `"body_mode":"base64"`)
	target.Close()
	text, _ := c.does(t, http.StatusOK, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/picture"}`, target.URL))
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	assert.Equal(t, []string{`"` + pixel + `"`, "base64"}, []string{string(got.Body), got.BodyEncoding})
}

// TestOneLimitOfBodies: limits.body is the limit of what a node takes and of what it sends.
func TestOneLimitOfBodies(t *testing.T) {
	t.Parallel()
	var received atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		received.Store(n)
	}))
	t.Cleanup(target.Close)
	a := newApp(t, "limits: {body: 1MiB}\n")
	ask := func(status int, path, members string) string {
		t.Helper()
		text, _ := a.asks(t, status, http.MethodPost, path, fmt.Sprintf(`{"method":"POST","url":%q,%s}`, target.URL, members))
		return text
	}
	ask(http.StatusOK, "/v1/execute", `"body_base64":"`+base64.StdEncoding.EncodeToString(make([]byte, 1<<19))+`"`)
	require.EqualValues(t, 1<<19, received.Load())
	ask(http.StatusRequestEntityTooLarge, "/v1/execute", `"body_text":"`+strings.Repeat("x", 1<<20)+`"`)
	long := `"form":{"a":"` + strings.Repeat("é", 1<<18) + `"}` // each takes six characters
	require.Contains(t, ask(http.StatusForbidden, "/v1/execute", long), "limits.body")
	require.Contains(t, ask(http.StatusOK, "/v1/policy/explain", long), string(schemas.DenyBody))
	require.EqualValues(t, 1<<19, received.Load(), "nothing else was sent")
}

// TestPassthroughKeys: an Idempotency-Key joins and replays, and goes to the target; so does a key in the header in
// which the target reads keys, by /via and by the proxy.
func TestPassthroughKeys(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	begun, goes := make(chan struct{}), make(chan struct{})
	target := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			close(begun)
			<-goes
		}
		fmt.Fprint(w, hits.Add(1), r.Header["X-Request-Key"], r.Header["Idempotency-Key"])
	}
	a, base := via(t, "/keys", target)
	_, _ = via(t, "/keyed", target)
	for at, header := range map[string]string{base + "/x": "Idempotency-Key", a.URL() + "/via/keyed/keyed/x": "X-Request-Key"} {
		first, one := askVia(t, "POST", at, "a", header, "k-1")
		require.Contains(t, one, "k-1")
		again, two := askVia(t, "POST", at, "a", strings.ToLower(header), "k-1")
		require.Equal(t, []string{one, "true", first.Header.Get("Weir-Action-Id")}, []string{two, again.Header.Get("Idempotency-Replayed"), again.Header.Get("Weir-Action-Id")})
		other, _ := askVia(t, "POST", at, "b", header, "k-1")
		require.Equal(t, []any{422, "IDEMPOTENCY_MISMATCH"}, []any{other.StatusCode, other.Header.Get(schemas.HeaderRefused)})
	}
	_, body := fetch(t, a.proxied(t, "", nil), http.MethodPost, switchboard().URL+"/keyed/x", "a", "X-Request-Key", "k2")
	require.Equal(t, "3 [k2] []", body)
	async, receipt := askVia(t, "POST", base+"/events", "a", "Idempotency-Key", "s", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, async.StatusCode, receipt)
	<-begun
	a.asks(t, http.StatusConflict, "GET", "/v1/actions/"+async.Header.Get("Weir-Action-Id")+"/response", "")
	time.AfterFunc(20*time.Millisecond, func() { close(goes) }) // before the end, or after it: the answer is the same
	_, joined := askVia(t, "POST", base+"/events", "a", "Idempotency-Key", "s")
	late, _ := a.asks(t, http.StatusOK, "GET", "/v1/actions/"+async.Header.Get("Weir-Action-Id")+"/response", "")
	require.Equal(t, joined, late)
	require.True(t, strings.HasPrefix(joined, "4 "), joined)
}

// TestPassthroughLeaves: a read that its only caller gives up is stopped, and nothing else is.
func TestPassthroughLeaves(t *testing.T) {
	t.Parallel()
	gone, begun, goes := make(chan struct{}), make(chan string, 2), make(chan struct{})
	a, base := via(t, "/leaves", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if begun <- r.Method; r.Method == http.MethodGet {
			<-r.Context().Done()
			close(gone)
			return
		}
		<-goes
		fmt.Fprint(w, "done")
	})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, base+"/"+method, strings.NewReader(""))
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		require.Equal(t, method, <-begun)
		leave()
		<-ended
	}
	<-gone
	close(goes)
	for method, want := range map[string]string{http.MethodGet: "canceled", http.MethodPost: "succeeded"} {
		poll.Until(t, func() bool {
			list, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions?q=/leaves/"+method+"&status="+want, "")
			return strings.Contains(list, `"path":"/leaves/`+method+`"`)
		}, method+" is "+want)
	}
}

// TestPassthroughSchema: an answer is judged by the response schema of its entry as a whole,
// before any of it is stored or shown.
func TestPassthroughSchema(t *testing.T) {
	t.Parallel()
	const sent, kept = " {\"id\": 1,\n \"key\": \"CANARY\"}\n", `{"id":1}`
	a, _ := via(t, "/schema", func(w http.ResponseWriter, r *http.Request) {
		body, status := sent, http.StatusOK
		switch r.URL.Path {
		case "/misfit":
			body = `{"key": "CANARY"}`
		case "/text":
			body = "CANARY"
		case "/404":
			status = http.StatusNotFound
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream") // otherwise shown from the beginning
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	for _, tt := range []struct {
		entry, path, body string
		refused           schemas.Code
		warnings          int
	}{
		{"strict", "/events", sent, "", 0},
		{"strict", "/misfit", "", schemas.ResponseSchemaInvalid, 0},
		{"strict", "/text", "", schemas.ResponseNotJSON, 0},
		{"warn", "/events", sent, "", 0},
		{"warn", "/misfit", `{"key": "CANARY"}`, "", 1},
		{"warn", "/text", "CANARY", "", 1},
		{"redact", "/", kept, "", 0},
		{"redact", "/events", kept, "", 0},
		{"redact", "/404", sent, "", 0},
		{"redact", "/misfit", "", schemas.ResponseSchemaInvalid, 0},
		{"redact", "/text", "", schemas.ResponseNotJSON, 0},
	} {
		resp, body := askVia(t, "GET", a.URL()+"/via/"+tt.entry+"/schema"+tt.path, "")
		require.Equal(t, string(tt.refused), resp.Header.Get(schemas.HeaderRefused), "%s: %s", tt, body)
		if tt.refused == "" {
			require.Equal(t, tt.body, body, tt)
		}
		action := "/v1/actions/" + resp.Header.Get("Weir-Action-Id")
		view, _ := a.asks(t, http.StatusOK, "GET", action, "")
		require.Equal(t, tt.warnings, strings.Count(view, `"warnings":[`), "%s: %s", tt, view)
		if tt.entry == "redact" && tt.path != "/404" {
			_, again, _ := a.ask(t, "GET", action+"/response", "")
			events, _ := a.asks(t, http.StatusOK, "GET", action+"/events", "", "Accept", "application/json")
			require.NotContains(t, body+view+again+events, "CANARY", tt)
		}
	}
}
