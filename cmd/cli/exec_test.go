package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// outcome is the document of a call that succeeded.
func outcome(t *testing.T, body string, headers ...string) string {
	t.Helper()
	doc := schemas.ExecuteOutcome{Status: http.StatusOK, Headers: []schemas.Header{}, Body: json.RawMessage(body)}
	for i := 0; i+1 < len(headers); i += 2 {
		doc.Headers = append(doc.Headers, schemas.Header{Name: headers[i], Value: headers[i+1]})
	}
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	return string(data)
}

// TestExecPrintsTheBody, and nothing else, on standard output.
func TestExecPrintsTheBody(t *testing.T) {
	t.Parallel()
	type testCase struct {
		doc  string
		args []string
		out  string
		errs string
	}
	table.Run(t, map[string]testCase{
		"JSON":                        {outcome(t, `{"a":1}`), nil, `{"a":1}`, "status 200, action a-1\n"},
		"text":                        {outcome(t, `"a\n\"b\" é"`, "content-type", "text/plain"), nil, "a\n\"b\" é", "status 200, action a-1\n"},
		"nothing":                     {outcome(t, `null`), nil, "", "status 200, action a-1\n"},
		"a JSON string":               {outcome(t, `"a"`, "content-type", "application/json"), nil, `"a"`, ""},
		"a problem that is text":      {outcome(t, `"a"`, "content-type", "application/problem+json; x=y"), nil, `"a"`, ""},
		"a JSON string, by length":    {outcome(t, `"a"`, "content-type", "text/plain", "content-length", "3"), nil, `"a"`, ""},
		"a text that claims JSON":     {outcome(t, `"a"`, "Content-Type", "application/json", "Content-Length", "1"), nil, `a`, ""},
		"control characters":          {outcome(t, `"\u001b[2J\u009b\u202e"`), nil, "\x1b[2J\u009b\u202e", ""},
		"bytes":                       {`{"status":200,"headers":[],"body":"AP8K","body_encoding":"base64"}`, nil, "\x00\xff\n", "status 200, action a-1\n"},
		"U+FFFD that the target sent": {outcome(t, `"\ufffd"`, "content-length", "3"), nil, "\ufffd", "status 200, action a-1\n"},
		"headers":                     {outcome(t, `"x"`, "a", "b", "c", "d"), []string{"-i"}, "HTTP/1.1 200 OK\na: b\nc: d\n\nx", ""},
		"the document":                {outcome(t, `"x"`), []string{"--json"}, `{"status":200,"headers":[],"body":"x"}` + "\n", ""},
	}, func(t *testing.T, tt testCase) {
		server := "--server=" + always(t, http.StatusOK, "application/json", tt.doc, "Weir-Action-Id", "a-1")
		code, out, errs := command(t, append([]string{"exec", "GET", "http://x/", server}, tt.args...)...)
		require.Equal(t, ExitOK, code, errs)
		assert.Equal(t, tt.out, out)
		assert.Contains(t, errs, tt.errs)
		assert.LessOrEqual(t, len(errs), len("status 200, action a-1\n"), errs)
	})
}

// TestExecAccepted: an action that begins later, or is not waited for, has a receipt.
func TestExecAccepted(t *testing.T) {
	t.Parallel()
	const receipt = `{"id":"a-1","status":"accepted","duplicate":false}`
	server := "--server=" + always(t, http.StatusAccepted, "application/json", receipt, "Weir-Action-Id", "a-1")
	for _, args := range [][]string{{"--async"}, {"--delay", "1h", "-i"}, {"--async", "--json"}} {
		code, out, errs := command(t, append([]string{"exec", "GET", "http://x/", server}, args...)...)
		require.Equal(t, ExitOK, code, errs)
		require.Equal(t, "accepted as a-1; follow it with: weir tail actions a-1\n", errs)
		if args[len(args)-1] == "--json" {
			require.JSONEq(t, receipt+"\n", out)
		} else {
			require.Empty(t, out)
		}
	}
}

// TestExecFails: each way in which a call ends that has not succeeded has a sentence and an exit code.
func TestExecFails(t *testing.T) {
	t.Parallel()
	type testCase struct {
		status int
		doc    string
		args   []string
		code   int
		errs   []string
	}
	table.Run(t, map[string]testCase{
		"a status": {
			502, `{"error":{"variant":"HttpFailure","message":"the target answered 404 Not Found","code":"HTTP_FAILURE","status":404,"headers":[{"name":"a","value":"b"}],"body":"no \u001b such page\n"}}`,
			nil, ExitFailed,
			[]string{"weir: the target answered 404 Not Found (HTTP_FAILURE)\nno \\u001b such page\naction a-1\n"},
		},
		"a status, with headers": {
			502, `{"error":{"variant":"HttpFailure","message":"the target answered 404 Not Found","status":404,"headers":[{"name":"a","value":"b"}],"body":{"n":1}}}`,
			[]string{"-i"},
			ExitFailed,
			[]string{"Not Found\nHTTP/1.1 404 Not Found\na: b\n\n{\"n\":1}\naction a-1\n"},
		},
		"a status, with bytes": {
			502, `{"error":{"variant":"HttpFailure","message":"m","status":404,"body":"AP8=","body_encoding":"base64"}}`, nil, ExitFailed,
			[]string{"weir: m\n(2 bytes that are no text; --json has them)\n"},
		},
		"a newer encoding": {200, `{"status":200,"body":"x","body_encoding":"hex"}`, nil, ExitFailed, []string{`the encoding "hex"`, "newer weir"}},
		"two bodies":       {200, `{}`, []string{"-d", "1", "-F", "a=b"}, ExitUsage, []string{"use one of -d, --data-binary, --data-urlencode and -F"}},
		"no name":          {200, `{}`, []string{"-F", "=b"}, ExitUsage, []string{`-F "=b" has no name; write -F 'name=value'`}},
		"no value":         {200, `{}`, []string{"--data-urlencode", "a"}, ExitUsage, []string{`write --data-urlencode 'name=value'`}},
		"no such upload":   {200, `{}`, []string{"-F", "a=@/nonexistent/x"}, ExitUsage, []string{"no such file"}},
		"no such option":   {200, `{}`, []string{"-F", "a=@x;size=1"}, ExitUsage, []string{`-F has no option "size"; use type and filename`}},
		"retries": {
			502, `{"error":{"variant":"RetriesExhausted","message":"m","retryable":true,"status":503,"body":"busy"}}`, nil, ExitFailed,
			[]string{"weir: m\nbusy\nit may succeed later", "action a-1\n"},
		},
		"denied": {
			403, `{"error":{"variant":"DisallowedHost","message":"disallowed host 'x'","code":"DENY_HOST","reason":"no entry covers it"}}`, nil, ExitDenied,
			[]string{"weir: policy denied the call: disallowed host 'x' (DENY_HOST)\nno entry covers it\n", "weir policy explain"},
		},
		"unknown": {
			424, `{"error":{"variant":"OutcomeUnknown","message":"m","code":"OUTCOME_UNKNOWN"}}`, nil, ExitUnknown,
			[]string{"weir: m (OUTCOME_UNKNOWN)\n", "weir actions resolve a-1 --applied, or --not-applied\n"},
		},
		"a bad argument":     {422, `{"error":{"variant":"InvalidMethod","message":"m","code":"DENY_METHOD"}}`, nil, ExitUsage, []string{"weir: m (DENY_METHOD)\n"}},
		"no token":           {401, `{"error":{"variant":"Request","message":"m","code":"UNAUTHORIZED"}}`, nil, ExitFailed, []string{"set $WEIR_TOKEN"}},
		"a problem":          {400, `{"title":"Bad Request","detail":"leave it out","code":"INVALID_REQUEST"}`, nil, ExitUsage, []string{"weir: leave it out (INVALID_REQUEST)\n"}},
		"a document":         {424, `{"error":{"variant":"OutcomeUnknown","message":"m","body":"b"}}`, []string{"--json"}, ExitUnknown, []string{"weir: m\n"}},
		"something else":     {200, `<html>`, nil, ExitFailed, []string{"not JSON; is it a Weir?"}},
		"--json and -i":      {200, `{}`, []string{"--json", "-i"}, ExitUsage, []string{"leave out -i and -o"}},
		"no such directory":  {200, `{}`, []string{"-o", "/nonexistent/x"}, ExitUsage, []string{"weir: -o: open /nonexistent/x"}},
		"a body of a form":   {200, `{}`, []string{"-d", "a=1"}, ExitUsage, []string{"the body is not JSON; a JSON string has quotes", "--data-binary, --data-urlencode or -F"}},
		"a body of bad JSON": {200, `{}`, []string{"-d", `{"a":`}, ExitUsage, []string{"the body is not JSON: unexpected end"}},
		"no such file":       {200, `{}`, []string{"-d", "@/nonexistent/x"}, ExitUsage, []string{"no such file"}},
	}, func(t *testing.T, tt testCase) {
		server := "--server=" + always(t, tt.status, "application/json", tt.doc, "Weir-Action-Id", "a-1")
		code, out, errs := command(t, append([]string{"exec", "GET", "http://x/", server}, tt.args...)...)
		assert.Equal(t, tt.code, code, errs)
		for _, want := range tt.errs {
			assert.Contains(t, errs, want)
		}
		if len(tt.args) == 1 && tt.args[0] == "--json" {
			assert.JSONEq(t, tt.doc, out)
		} else {
			assert.Empty(t, out)
		}
	})
}

func TestExecWritesAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there, file := filepath.Join(dir, "there"), filepath.Join(dir, "new")
	require.NoError(t, os.WriteFile(there, []byte("much longer than the answer"), 0o600))
	good := "--server=" + always(t, http.StatusOK, "application/json", outcome(t, `"\u001ba"`))
	bad := "--server=" + always(t, http.StatusBadGateway, "application/json", `{"error":{"variant":"HttpFailure","message":"m","status":500,"body":"b"}}`)
	for _, step := range []struct {
		server, file string
		code         int
		want         string
	}{
		{bad, there, ExitFailed, "much longer than the answer"},
		{bad, file, ExitFailed, ""},
		{good, there, ExitOK, "\x1ba"},
		{good, file, ExitOK, "\x1ba"},
	} {
		code, out, errs := command(t, "exec", "GET", "http://x/", step.server, "-o", step.file)
		require.Equal(t, step.code, code, errs)
		require.Empty(t, out)
		data, err := os.ReadFile(step.file)
		if step.want == "" {
			require.ErrorIs(t, err, os.ErrNotExist)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, step.want, string(data))
	}
}

func TestExecSendsTheBody(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, []byte(`{"in":"a file"}`), 0o600))
	for data, want := range map[string]string{
		`{"a":1.10}`: `{"a":1.10}`, "@" + file: `{"in":"a file"}`, "@-": `["typed"]`, `"text"`: `"text"`, "": "",
	} {
		sent := ""
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var doc schemas.ExecuteRequest
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&doc))
			sent = string(doc.Args.Body)
			_, _ = io.WriteString(w, `{"status":200,"body":null}`)
		}))
		code, _, errs := weir(t, `["typed"]`, nil, "exec", "POST", "http://x/", "-d", data, "--server", s.URL)
		s.Close()
		require.Equal(t, ExitOK, code, errs)
		require.Equal(t, want, sent)
	}
}

// TestExecSendsForms: each flag for a body gives the member of the request that has its form.
func TestExecSendsForms(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.png")
	require.NoError(t, os.WriteFile(file, []byte("\x00\xff"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--data-binary", "@" + file}, `{"body_base64":"AP8="}`},
		{[]string{"--data-binary", "<a/>"}, `{"body_base64":"PGEvPg=="}`},
		{[]string{"--data-binary", "@-"}, `{"body_base64":"dHlwZWQ="}`},
		{[]string{"--data-urlencode", "b= x=1", "--data-urlencode", "a=", "--data-urlencode", "b=2"}, `{"form":{"b":[" x=1","2"],"a":[""]}}`},
		{[]string{"-F", "b=x;type=y", "-F", "a=@" + file}, `{"form":{"b":[{"text":"x;type=y"}],"a":[{"filename":"a.png","content_type":"image/png","base64":"AP8="}]}}`},
		{[]string{"-F", "a=@" + file + ";type=text/x; filename=n"}, `{"form":{"a":[{"filename":"n","content_type":"text/x","base64":"AP8="}]}}`},
		{[]string{"-F", "a="}, `{"form":{"a":[{"text":""}]}}`},
	} {
		for _, command := range [][]string{{"exec"}, {"policy", "explain"}, {"rules", "preview"}} {
			sent := map[string]json.RawMessage{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&sent))
				_, _ = io.WriteString(w, `{"status":200,"body":null,"allowed":true}`)
			}))
			code, _, errs := weir(t, `typed`, nil, append(append(command, "POST", "http://x/", "--server", s.URL), tt.args...)...)
			s.Close()
			require.Equal(t, ExitOK, code, errs)
			if args, ok := sent["args"]; ok {
				sent = map[string]json.RawMessage{}
				require.NoError(t, json.Unmarshal(args, &sent))
			}
			delete(sent, "method")
			delete(sent, "url")
			got, err := json.Marshal(sent)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got), "%v %v", command, tt.args)
		}
	}
}

func TestActionsResolve(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 2)
	var resolution *schemas.Resolution
	run := desk(t, func(r *http.Request) any {
		switch r.URL.Path {
		case "/v1/actions/a/resolve":
			if body, err := io.ReadAll(r.Body); assert.NoError(t, err) {
				sent <- string(body)
			}
			return schemas.ActionStatus{ID: "a", Status: "outcome_unknown", Resolution: "applied"}
		case "/v1/actions/a":
			return schemas.ActionView{ID: "a", Status: "outcome_unknown", ResolveURL: "/v1/actions/a/resolve", Resolution: resolution}
		default:
			return schemas.Page[schemas.EventView]{}
		}
	})
	out, _ := run(ExitOK, "actions", "resolve", "a", "--applied", "--note", "seen <1>")
	require.Equal(t, "a\toutcome_unknown, resolved as applied\n", out)
	require.JSONEq(t, `{"effect":"applied","note":"seen <1>"}`, <-sent)
	out, _ = run(ExitOK, "actions", "resolve", "a", "--not-applied", "--json")
	require.JSONEq(t, `{"id":"a","status":"outcome_unknown","resolution":"applied"}`, out)
	require.JSONEq(t, `{"effect":"not_applied"}`, <-sent)
	for _, args := range [][]string{{"a"}, {"a", "--applied", "--not-applied"}, {"--applied"}} {
		_, said := run(ExitUsage, append([]string{"actions", "resolve"}, args...)...)
		require.NotEmpty(t, said)
	}
	require.Empty(t, sent, "a mistake sends nothing")

	const hint = "weir actions resolve a --applied, or --not-applied\n"
	_, said := run(ExitOK, "actions", "show", "a")
	require.Contains(t, said, hint)
	resolution = &schemas.Resolution{Effect: "applied"}
	_, said = run(ExitOK, "actions", "show", "a")
	require.NotContains(t, said, hint)
}
