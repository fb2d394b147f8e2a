package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/weirtest/table"
)

const tested = `listen: 127.0.0.1:0
log: {durability: process}
policy:
  allowlist:
  - {name: orders, url_prefix: "https://api.example.com/orders", methods: [GET, POST], headers: {Authorization: "Bearer ${secret:ORDERS}"}}
  - {name: pins, url_prefix: "https://pins.example.com/", methods: [POST], body: {pin: "${secret:PIN}"}}
`

// TestPolicyTest tests one policy by its file.
func TestPolicyTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	require.NoError(t, os.WriteFile(file, []byte(tested), 0o600))
	const denied, allowed = "- deny: ", "- allow: "
	const orders, pins = "https://api.example.com/orders\n", "https://pins.example.com/\n"
	type testCase struct {
		cases string
		code  int
		want  string // of the last line
	}
	table.Run(t, map[string]testCase{
		"allowed":              {allowed + "GET " + orders, cli.ExitOK, "PASS FILE:1 allow GET https://api.example.com/orders: allowed by orders"},
		"a method in any case": {allowed + "get " + orders, cli.ExitOK, "PASS FILE:1 allow GET"},
		"by its entry":         {allowed + "GET " + orders + "  by: orders\n  key: orders", cli.ExitOK, "PASS"},
		"by another":           {allowed + "GET " + orders + "  by: pins", cli.ExitFailed, "FAIL FILE:1 allow GET https://api.example.com/orders by pins: allowed by orders"},
		"under another's name": {allowed + "GET " + orders + "  key: pins", cli.ExitFailed, "to allow it, set allowlist_key to orders"},
		"a body":               {allowed + "POST " + pins + "  body: {n: 1.5, list: [a, null]}", cli.ExitOK, "PASS"},
		"a text":               {denied + "POST " + pins + "  body_text: a=b\n  because: DENY_BODY", cli.ExitOK, "PASS"},
		"bytes":                {allowed + "POST " + orders + "  body_base64: AP8=", cli.ExitOK, "PASS"},
		"a form":               {denied + "POST " + pins + "  form: {a: [1, x], f: {filename: f, base64: AP8=}}\n  because: DENY_BODY", cli.ExitOK, "PASS"},
		"no body":              {allowed + "POST " + pins, cli.ExitFailed, "DENY_BODY"},
		"a header":             {denied + "GET " + orders + "  headers: {authorization: mine}\n  because: DENY_HEADER", cli.ExitOK, "PASS"},
		"denied":               {denied + "PUT " + orders + "  because: DENY_METHOD", cli.ExitOK, "PASS FILE:1 deny PUT https://api.example.com/orders: denied by orders, DENY_METHOD: "},
		"for another reason":   {denied + "PUT " + orders + "  because: DENY_PATH", cli.ExitFailed, "because DENY_PATH: denied by orders, DENY_METHOD"},
		"denied, but allowed":  {denied + "GET " + orders, cli.ExitFailed, "FAIL FILE:1 deny GET https://api.example.com/orders: allowed by orders"},
		"allowed, but denied":  {allowed + "GET https://other.example/", cli.ExitFailed, "to allow it, add an entry with url_prefix https://other.example/, or add other.example to policy.allowed_hosts"},
		"the last of three":    {"# why\n" + allowed + "GET " + orders + "\n" + denied + "PUT " + orders + "- {deny: GET " + strings.TrimSpace(orders) + "}\n", cli.ExitFailed, "FAIL FILE:5 "},
		"only some entries":    {denied + "GET " + orders + "  entries: [pins]\n  because: DENY_HOST", cli.ExitOK, "PASS"},
	}, func(t *testing.T, tt testCase) {
		cases := filepath.Join(t.TempDir(), "cases.yaml")
		require.NoError(t, os.WriteFile(cases, []byte(tt.cases), 0o600))
		args := []string{"policy", "test", cases, "--config", file}
		code, out, errs := command(t, args...)
		require.Equal(t, tt.code, code, errs)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Contains(t, lines[len(lines)-1], strings.ReplaceAll(tt.want, "FILE", cases))
		require.Contains(t, errs, " cases: ")
	})
}

// TestBadCases: every mistake in a file is reported with its line, and nothing is decided.
func TestBadCases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	require.NoError(t, os.WriteFile(file, []byte(tested), 0o600))
	run := func(cases string) (out, errs string) {
		name := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(name, []byte(cases), 0o600))
		code, out, errs := command(t, "policy", "test", "--config", file, name)
		require.Equal(t, cli.ExitUsage, code, errs)
		return out, errs
	}
	out, errs := run(`- allow: GET https://a.example/
- allow: GET https://a.example/
  deny: GET https://a.example/
- allow: https://a.example/
- deny: GET https://a.example/
  bcause: DENY_HOST
- deny: GET https://a.example/
  because: DENY_NO
- {allow: GET https://a.example/, because: DENY_HOST}
- seven
- key: orders
- allow: GET https://a.example/
  headers: [a]
- allow: GET https://a.example/
  entries: []
- deny: GET https://a.example/
  because:
- allow: GET https://a.example/
  by: ""
- allow: GET https://a.example/
  entries:
- allow: GET https://a.example/
  entries: [""]
`)
	assert.Empty(t, out)
	for _, want := range []string{
		":2: give one of allow and deny", ":4: write a method and a URL", `:5: it is not a case: unknown field "bcause"`,
		`:7: because: "DENY_NO" is not the code of a denial; the codes are DENY_KEY_UNKNOWN`, ":9: because: only for deny", ":10: it is not a case", ":11: give one of allow and deny",
		":12: it is not a case", ":14: entries: write the names",
		":16: because: it is empty", ":18: by: it is empty", ":20: entries: it is empty", ":22: entries: write the names",
	} {
		assert.Contains(t, errs, want)
	}
	assert.NotContains(t, errs, ":1:")
	out, errs = run("- allow: GET https://a.example/\n- deny: POST https://a.example/\n  body: 1\n  form: {a: 1}")
	assert.Empty(t, out)
	assert.Contains(t, errs, ":2: VALIDATION_ERROR: at /form: is a second form of the body")
	for cases, want := range map[string]string{
		"": "not a list of cases", "a: b": "not a list of cases", "[]": "not a list of cases", `{"id":"x"}`: "not a list of cases", "- a: [": ":1: it is not YAML",
	} {
		_, errs := run(cases)
		assert.Contains(t, errs, want, cases)
	}
}
