package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// outcome is the document of a call that succeeded.
func outcome(body string, headers ...string) string {
	doc := schemas.ExecuteOutcome{Status: http.StatusOK, Headers: []schemas.Header{}, Body: json.RawMessage(body)}
	for i := 0; i+1 < len(headers); i += 2 {
		doc.Headers = append(doc.Headers, schemas.Header{Name: headers[i], Value: headers[i+1]})
	}
	data, _ := json.Marshal(doc) //nolint:errchkjson // the bodies are JSON
	return string(data)
}

// fault is the document of a call that failed.
func fault(members string) string { return `{"error":{` + members + `}}` }

// TestExec prints the body on standard output and all else on standard error. Each way in which a call ends that has
// not succeeded has a sentence and an exit code.
func TestExec(t *testing.T) {
	t.Parallel()
	const done, accepted = "status 200, action a-1\n", "accepted as a-1; follow it with: weir tail actions a-1\n"
	const receipt = `{"id":"a-1","status":"accepted","duplicate":false}`
	const notFound = `"variant":"HttpFailure","message":"the target answered 404 Not Found","code":"HTTP_FAILURE","status":404,"headers":[{"name":"a","value":"b"}],`
	const unusual = `{"status":200,"headers":[],"body":1,"reconciled":true,"warnings":["/id: is missing\u001b"]}`
	unknown := fault(`"variant":"OutcomeUnknown","message":"m","code":"OUTCOME_UNKNOWN","body":"b"`)
	examples(t, "exec GET http://x/", map[string]example{
		"JSON":                     {answer: outcome(`{"a":1}`), out: `{"a":1}`, errs: done},
		"text":                     {answer: outcome(`"a\n\"b\" é"`, "content-type", "text/plain"), out: "a\n\"b\" é", errs: done},
		"nothing":                  {answer: outcome(`null`), errs: done},
		"a JSON string":            {answer: outcome(`"a"`, "content-type", "application/json"), out: `"a"`, errs: done},
		"a problem that is text":   {answer: outcome(`"a"`, "content-type", "application/problem+json; x=y"), out: `"a"`, errs: done},
		"a JSON string, by length": {answer: outcome(`"a"`, "content-type", "text/plain", "content-length", "3"), out: `"a"`, errs: done},
		"a text that claims JSON":  {answer: outcome(`"a"`, "Content-Type", "application/json", "Content-Length", "1"), out: `a`, errs: done},
		"control characters":       {answer: outcome(`"\u001b[2J\u009b\u202e"`), out: "\x1b[2J\u009b\u202e", errs: done},
		"bytes":                    {answer: `{"status":200,"headers":[],"body":"AP8K","body_encoding":"base64"}`, out: "\x00\xff\n", errs: done},
		"headers":                  {args: "-i", answer: outcome(`"x"`, "a", "b", "c", "d"), out: "HTTP/1.1 200 OK\na: b\nc: d\n\nx", errs: done},
		"the document":             {args: "--json", answer: outcome(`"x"`), out: `{"status":200,"headers":[],"body":"x"}` + "\n", errs: done},
		"what is unusual":          {answer: unusual, out: "1", errs: `warning: the answer does not fit the response schema of its entry: /id: is missing\u001b|its own answer was lost`},
		"not waited for":           {args: "--async", status: 202, answer: receipt, errs: accepted},
		"later":                    {args: "--delay 1h", status: 202, answer: receipt, errs: accepted},
		"the receipt":              {args: "--async --json", status: 202, answer: receipt, out: receipt + "\n", errs: accepted},

		"a status":               {status: 502, answer: fault(notFound + `"body":"no \u001b such page\n"`), code: ExitFailed, errs: "weir: the target answered 404 Not Found (HTTP_FAILURE)\nno \\u001b such page\naction a-1\n"},
		"a status, with headers": {args: "-i", status: 502, answer: fault(notFound + `"body":{"n":1}`), code: ExitFailed, errs: "(HTTP_FAILURE)\nHTTP/1.1 404 Not Found\na: b\n\n{\"n\":1}\naction a-1\n"},
		"a status, with bytes":   {status: 502, answer: fault(notFound + `"body":"AP8=","body_encoding":"base64"`), code: ExitFailed, errs: "\n(2 bytes that are no text; --json has them)\n"},
		"retries":                {status: 502, answer: fault(`"variant":"RetriesExhausted","message":"m","retryable":true,"status":503,"body":"busy"`), code: ExitFailed, errs: "weir: m\nbusy\nit may succeed later|action a-1\n"},
		"denied":                 {status: 403, answer: fault(`"variant":"DisallowedHost","message":"disallowed host 'x'","code":"DENY_HOST","reason":"no entry covers it"`), code: ExitDenied, errs: "weir: policy denied the call: disallowed host 'x' (DENY_HOST)\nno entry covers it\n|weir policy explain"},
		"unknown":                {status: 424, answer: unknown, code: ExitUnknown, errs: "weir: m (OUTCOME_UNKNOWN)\n|weir actions resolve a-1 --applied, or --not-applied\n"},
		"unknown, as a document": {args: "--json", status: 424, answer: unknown, code: ExitUnknown, out: unknown + "\n", errs: "weir: m (OUTCOME_UNKNOWN)\n"},
		"a bad argument":         {status: 422, answer: fault(`"variant":"InvalidMethod","message":"m","code":"DENY_METHOD"`), code: ExitUsage, errs: "weir: m (DENY_METHOD)\n"},
		"no token":               {status: 401, answer: fault(`"variant":"Request","message":"m","code":"UNAUTHORIZED"`), code: ExitFailed, errs: "set $WEIR_TOKEN"},
		"a problem":              {status: 400, answer: `{"title":"Bad Request","detail":"leave it out","code":"INVALID_REQUEST"}`, code: ExitUsage, errs: "weir: leave it out (INVALID_REQUEST)\n"},
		"a bad request":          {status: 400, answer: fault(`"variant":"Request","message":"m","code":"INVALID_REQUEST"`), code: ExitUsage, errs: "weir: m (INVALID_REQUEST)\n"},
		"a newer encoding":       {answer: `{"status":200,"body":"x","body_encoding":"hex"}`, code: ExitFailed, errs: `the encoding "hex"|newer weir`},
		"something else":         {answer: `<html>`, code: ExitFailed, errs: "not JSON; is it a Weir?"},

		"a broken header":   {args: "--idempotency-key a\x01b", code: ExitUsage, errs: "the header Idempotency-Key has a control character"},
		"an output later":   {args: "--async -o /nonexistent/x", code: ExitUsage, errs: "-i and -o are for an answer"},
		"a head later":      {args: "--delay 1m -i", code: ExitUsage, errs: "-i and -o are for an answer"},
		"a header twice":    {args: "-H X-A:1 -H x-a:2", code: ExitUsage, errs: "-H names x-a twice"},
		"two bodies":        {args: "-d 1 -F a=b", code: ExitUsage, errs: "use one of -d, --data-binary, --data-urlencode and -F"},
		"no name":           {args: "-F =b", code: ExitUsage, errs: `-F "=b" has no name; write -F 'name=value'`},
		"no value":          {args: "--data-urlencode a", code: ExitUsage, errs: `write --data-urlencode 'name=value'`},
		"no such upload":    {args: "-F a=@/nonexistent/x", code: ExitUsage, errs: "no such file"},
		"no such option":    {args: "-F a=@x;size=1", code: ExitUsage, errs: `-F has no option "size"; use type and filename`},
		"--json and -i":     {args: "--json -i", code: ExitUsage, errs: "leave out -i and -o"},
		"no such directory": {args: "-o /nonexistent/x", code: ExitUsage, errs: "weir: -o: open /nonexistent/x"},
		"a form as JSON":    {args: "-d a=1", code: ExitUsage, errs: "the body is not JSON; a JSON string has quotes|--data-binary, --data-urlencode or -F"},
		"bad JSON":          {args: `-d {"a":`, code: ExitUsage, errs: "the body is not JSON: unexpected end"},
	}, "Weir-Action-Id", "a-1")
}

func TestExecWritesAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there, file := filepath.Join(dir, "there"), filepath.Join(dir, "new")
	require.NoError(t, os.WriteFile(there, []byte("much longer than the answer"), 0o600))
	good := "--server=" + always(t, http.StatusOK, "application/json", outcome(`"\u001ba"`))
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

// TestExecSendsBodies: each flag for a body gives the member of the request that has its form.
func TestExecSendsBodies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image, doc := filepath.Join(dir, "a.png"), filepath.Join(dir, "body")
	require.NoError(t, os.WriteFile(image, []byte("\x00\xff"), 0o600))
	require.NoError(t, os.WriteFile(doc, []byte(`{"in":"a file"}`), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-d", `{"a":1.10}`}, `{"body":{"a":1.10}}`},
		{[]string{"-d", "@" + doc}, `{"body":{"in":"a file"}}`},
		{[]string{"-d", "@-"}, `{"body":["typed"]}`},
		{[]string{"-d", `"text"`}, `{"body":"text"}`},
		{[]string{"-d", ""}, `{}`},
		{[]string{"--data-binary", "@" + image}, `{"body_base64":"AP8="}`},
		{[]string{"--data-binary", "<a/>"}, `{"body_base64":"PGEvPg=="}`},
		{[]string{"--data-binary", "@-"}, `{"body_base64":"WyJ0eXBlZCJd"}`},
		{[]string{"--data-urlencode", "b= x=1", "--data-urlencode", "a=", "--data-urlencode", "b=2"}, `{"form":{"b":[" x=1","2"],"a":[""]}}`},
		{[]string{"-F", "b=x;type=y", "-F", "a=@" + image}, `{"form":{"b":[{"text":"x;type=y"}],"a":[{"filename":"a.png","content_type":"image/png","base64":"AP8="}]}}`},
		{[]string{"-F", "a=@" + image + ";type=text/x; filename=n"}, `{"form":{"a":[{"filename":"n","content_type":"text/x","base64":"AP8="}]}}`},
		{[]string{"-F", "a="}, `{"form":{"a":[{"text":""}]}}`},
	} {
		for _, command := range [][]string{{"exec"}, {"policy", "explain"}, {"rules", "preview"}} {
			sent := map[string]json.RawMessage{}
			url := served(t, func(w http.ResponseWriter, r *http.Request) {
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&sent))
				_, _ = io.WriteString(w, `{"status":200,"body":null,"allowed":true}`)
			})
			code, _, errs := weir(t, `["typed"]`, nil, append(append(command, "POST", "http://x/", "--server", url), tt.args...)...)
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

// TestExecBatch: a file of requests in either form is one batch, each item has a line, and the exit
// code is the worst of all.
func TestExecBatch(t *testing.T) {
	t.Parallel()
	const ok = `{"index":0,"action_id":"a","status":200,"result":{"status":201,"headers":[],"body":null}}`
	type testCase struct {
		file, answer string
		sent         int
		exit         int
		out          string
	}
	table.Run(t, map[string]testCase{
		"a list": {`[{"method":"GET"}]`, ok, 1, ExitOK, "0\t201\ta\t-\t-\n"},
		"lines":  {"{}\n{}\n", ok + "\n" + `{"index":1,"action_id":"b","status":202,"receipt":{"id":"b"}}`, 2, ExitOK, "0\t201\ta\t-\t-\n1\t-\tb\t-\taccepted\n"},
		"failed": {"{}", `{"index":0,"action_id":"a","status":502,"error":{"variant":"HttpFailure","message":"no\n","code":"HTTP_FAILURE","status":404}}`, 1, ExitFailed, "0\t404\ta\tHTTP_FAILURE\tno\\u000a\n"},
		"bad":    {"{}", `{"index":0,"status":400,"error":{"variant":"MissingArgument","message":"url","code":"VALIDATION_ERROR"}}`, 1, ExitUsage, "0\t-\t-\tVALIDATION_ERROR\turl\n"},
		"the worst": {
			"{}{}{}",
			`{"index":2,"status":424,"action_id":"c","error":{"variant":"OutcomeUnknown","message":"m","code":"OUTCOME_UNKNOWN"}}` + ok + `{"index":1,"status":403,"action_id":"b","error":{"variant":"DisallowedHost","message":"d","code":"DENY_HOST"}}`,
			3, ExitUnknown, "2\t-\tc\tOUTCOME_UNKNOWN\tm\n0\t201\ta\t-\t-\n1\t-\tb\tDENY_HOST\td\n",
		},
		"cut off": {"{}{}", ok, 2, ExitFailed, "0\t201\ta\t-\t-\n"},
	}, func(t *testing.T, tc testCase) {
		var sent struct {
			Requests []json.RawMessage `json:"requests"`
		}
		url := served(t, func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewDecoder(r.Body).Decode(&sent)
			if r.Header.Get("Accept") == schemas.MediaNDJSON && r.Header.Get("Idempotency-Key") == "k" {
				_, _ = io.WriteString(w, tc.answer)
			}
		})
		code, out, errs := weir(t, tc.file, nil, "exec", "--batch", "-", "--idempotency-key", "k", "--server", url)
		require.Equal(t, tc.exit, code, errs)
		require.Equal(t, tc.out, out)
		require.Len(t, sent.Requests, tc.sent)
	})
}

func TestExecBatchRefuses(t *testing.T) {
	t.Parallel()
	file := fixture.Write(t, "r.ndjson", "{}\n{,}")
	examples(t, "exec", map[string]example{
		"bad JSON": {args: "--batch " + file, code: ExitUsage, errs: "request 2 is not JSON"},
		"empty":    {args: "--batch " + os.DevNull, code: ExitUsage, errs: "has 0 requests"},
		"a body":   {args: "-d {} --batch " + file, code: ExitUsage, errs: "--data belongs to one call"},
		"a call":   {args: "GET http://x/ --batch " + file, code: ExitUsage, errs: "no arguments with --batch"},
		"no URL":   {args: "GET", code: ExitUsage, errs: "a method and a URL, or --batch FILE"},
		"no file":  {args: "--batch /nonexistent/x", code: ExitUsage, errs: "no such file"},
	})
	code, _, errs := weir(t, "{}", nil, "exec", "--batch", "-", "--server", always(t, http.StatusBadRequest, "application/json", fault(`"variant":"InvalidArgumentValue","message":"no list"`)))
	require.Equal(t, ExitUsage, code, errs)
	require.Contains(t, errs, "no list")
}
