//go:build e2e

package corpus_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unwrapped[E error](err error) (E, bool) { return errors.AsType[E](err) }

const (
	goodOutbound = `{"id":"GOOD","category":"own","policy":{"entries":[{"name":"api","url_prefix":"https://api.example.com/v1/"}]},` +
		`"request":{"method":"GET","url":"https://api.example.com/v1/x","allowlist_key":"api"},"resolver":{"api.example.com":[["93.184.216.34"]]},` +
		`"upstream":{"behaviour":"ok"},"expected":"allow","code":"OK","sent":[1,1],"level":"must","static":false,"why":"a control"}`
	goodInbound = `{"id":"GOOD","surface":"json-body","method":"POST","path":"/v1/actions","headers":{"Authorization":"Bearer {task_token}","Content-Type":"application/json"},` +
		`"body":"{\"method\":\"GET\",\"url\":\"{upstream}/v1/x\",\"allowlist_key\":\"api\"}","expected_status_class":"2xx","expected_error_code":"","level":"must","why":"a control"}`
)

// edit is a good row with one part replaced, and what the failure of that row must name.
type edit struct{ from, to, names string }

// TestAnUnknownWordFailsItsRow runs this test program again, on rows of which each but
// one has a word that the harness does not know. Those fail, by name; the rest of the
// run goes on.
func TestAnUnknownWordFailsItsRow(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		good  string
		edits map[string]edit
	}{
		otherOutbound: {goodOutbound, map[string]edit{
			"BEHAVIOUR": {`"behaviour":"ok"`, `"behaviour":"no_such"`, `upstream behaviour "no_such"`},
			"TLS":       {`"behaviour":"ok"`, `"behaviour":"tls_no_such"`, `upstream behaviour "tls_no_such"`},
			"STEP":      {`"behaviour":"ok"`, `"behaviour":"sequence","steps":["ok","no_such"]`, `upstream behaviour "no_such"`},
			"MEMBER":    {`"behaviour":"ok"`, `"behaviour":"ok","no_such":1`, `unknown field "no_such"`},
			"PLAIN":     {`"behaviour":"ok"`, `"behaviour":"tls_expired","body":""`, ""},
			"REQUEST":   {`"method":"GET"`, `"method":"GET","no_such":1`, `request member "no_such"`},
			"GEN":       {`"method":"GET"`, `"method":"POST","body":{"gen":"no_such"}`, `generator "no_such"`},
			"RESOLVER":  {`["93.184.216.34"]`, `"NO_SUCH"`, `resolver answer "NO_SUCH"`},
			"POLICY":    {`"name":"api"`, `"name":"api","no_such":1`, "no_such"},
			"VERDICT":   {`"expected":"allow"`, `"expected":"no_such"`, `verdict "no_such"`},
			"ASSERT":    {`"why"`, `"assert":{"no_such":1},"why"`, `assertion "no_such"`},
			"CRASH":     {`"why"`, `"assert":{"crash_at":"no_such"},"why"`, `crash point "no_such"`},
			"SHAPE":     {`"sent":[1,1]`, `"sent":"no_such"`, "sent"},
		}},
		otherInbound: {goodInbound, map[string]edit{
			"HEADER":  {"{task_token}", "{no_such}", "placeholder {no_such}"},
			"PATH":    {"/v1/actions", "/v1/actions/{no_such}", "placeholder {no_such}"},
			"BODY":    {"{upstream}", "{no.such}", "placeholder {no.such}"},
			"RAW":     {`"why"`, `"raw":"{no_such}","why"`, "placeholder {no_such}"},
			"GEN":     {`"body":`, `"body":{"gen":"no_such"},"stdlib":`, `generator "no_such"`},
			"SURFACE": {"json-body", "no-such", `surface "no-such"`},
			"SETUP":   {`"why"`, `"setup":"no_such","why"`, `setup "no_such"`},
			"ASSERT":  {`"why"`, `"assert":"equal ids; no such","why"`, `assertion "no such"`},
			"CLASS":   {`"2xx"`, `"no_such"`, `expected_status_class "no_such"`},
			"MEMBER":  {`"why"`, `"no_such":1,"why"`, `unknown field "no_such"`},
		}},
	}
	for variable, c := range cases {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			rows := []string{c.good, "no row at all"}
			for id, e := range c.edits {
				row := strings.Replace(c.good, e.from, e.to, 1)
				require.NotEqual(t, c.good, row, id)
				if id == "RAW" {
					row = strings.Replace(row, `"method":"POST"`, `"method":"RAW"`, 1)
				}
				if id == "PLAIN" {
					row, e.names = strings.ReplaceAll(row, "https://", "http://"), `behaviour "tls_expired" without TLS`
					c.edits[id] = e
				}
				rows = append(rows, strings.Replace(row, `"GOOD"`, `"`+id+`"`, 1))
			}
			file := filepath.Join(t.TempDir(), "rows.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(rows, "\n")+"\n"), 0o600))
			program, err := os.Executable()
			require.NoError(t, err)
			name := map[string]string{otherOutbound: "TestOutbound", otherInbound: "TestInbound"}[variable]
			run := exec.CommandContext(t.Context(), program, "-test.run=^"+name+"$", "-test.v")
			run.Env = append(os.Environ(), variable+"="+file)
			data, err := run.CombinedOutput()
			output := string(data)
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "a run with such rows must fail")
			assert.NotContains(t, output, "panic:")
			assert.Regexp(t, `--- PASS: `+name+`/GOOD `, output)
			assert.Contains(t, output, "rows.jsonl:2", "the line that is no row")
			for id, e := range c.edits {
				assert.Regexp(t, `--- FAIL: `+name+`/`+id+` `, output)
				assert.NotRegexp(t, `--- (PASS|SKIP): `+name+`/`+id+` `, output)
				assert.Regexp(t, `(?s)=== (RUN|NAME|CONT) +\S+/`+id+`\n[^=]*`+regexp.QuoteMeta(e.names), output, id)
			}
			if t.Failed() {
				t.Log(output)
			}
		})
	}
}

// TestBodiesAreTheRowsBytes: no encoder stands between a row and what is sent.
func TestBodiesAreTheRowsBytes(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{ "a" : 1.0e+2, "a":2,"b":"<\u003c\/é"}`:    "",
		`{"gen":"json","text":" {\"a\" :\t1 \n} x"}`: " {\"a\" :\t1 \n} x",
		`{"gen":"json","text":""}`:                   "",
		`{"gen":"nest","depth":3}`:                   "[[[]]]",
		`{"gen":"repeat","unit":"ab","count":2}`:     `"abab"`,
		` null`:                                      "null",
	} {
		if want == "" && !strings.HasPrefix(body, `{"gen"`) {
			want = body
		}
		var r outboundRow
		row := strings.Replace(goodOutbound, `"method":"GET"`, `"method":"POST","body":`+body, 1)
		require.NoError(t, readStrictly([]byte(row), &r))
		require.Empty(t, r.lacks())
		_, sent := r.body()
		assert.Contains(t, sent, `,"body":`+want+`}`, body)
	}
	g := &gateway{upstream: newInboundUpstream(t), values: map[string]string{"task_token of ROW": "T"}}
	for body, want := range map[string]string{
		`" {\"a\" : 1 , \"a\":1.0}\r\n\u0000é"`:                            " {\"a\" : 1 , \"a\":1.0}\r\n\x00é",
		`{"b64":"e3Rhc2tfdG9rZW59/w=="}`:                                   "{task_token}\xff",
		`"{\"t\":\"{task_token}\"}"`:                                       `{"t":"T"}`,
		`{"gen":"nest_array","depth":2}`:                                   "[[]]",
		`{"gen":"template","text":"{task_token}BIG","unit":"x","count":2}`: "Txx",
	} {
		r := inboundRow{Method: "POST", Path: "/agents/run/sync", Body: []byte(body), Surface: "limits"}
		r.ID = "ROW"
		assert.True(t, strings.HasSuffix(r.bytes(t, g), "\r\n\r\n"+want), "%s: %q", body, r.bytes(t, g))
	}
}
