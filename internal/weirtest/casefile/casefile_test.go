package casefile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress/executor"
	"weir/internal/jsonschema"
	"weir/internal/weirtest/casefile"
)

const shop = `"policy":{"entries":[{"name":"shop","url_prefix":"https://shop.test/api/","methods":["GET","POST"],` +
	`"secret":{"header":"X-Shop-Token","format":"{value}"},"caller_params":["*"],"upstream_idempotency":{"ttl_s":60}}],"allowed_hosts":["localhost"],"self_ports":[4222],"self_hosts":["me.test"]}`

// A case may try a shadow entry, and what the worker adds to query and body.
func TestEntriesOfEveryKind(t *testing.T) {
	t.Parallel()
	const policy = `"policy":{"entries":[` +
		`{"name":"adds","url_prefix":"https://shop.test/","methods":["POST"],"query":{"key":"${secret:K}"},"body":{"pin":"${secret:P}"},"caller_params":["a"]},` +
		`{"name":"later","url_prefix":"https://shop.test/","mode":"shadow"}]}`
	of := func(id, request, expected, code string) string {
		return fmt.Sprintf(`{"id":%q,%s,"request":{"method":"POST",%s},"resolver":{"shop.test":[["93.184.216.34"]]},"expected":%q,"code":%q}`,
			id, policy, request, expected, code)
	}
	_, sum, err := run(t, executor.Checker{},
		of("a", `"url":"https://shop.test/?a=1","allowlist_key":"adds","body":{"a":1}`, "allow", "OK"),
		of("b", `"url":"https://shop.test/?k%65y=1","allowlist_key":"adds","body":{"a":1}`, "deny", "DENY_URL_INVALID"),
		of("c", `"url":"https://shop.test/","allowlist_key":"adds","params":{"key":1},"body":{"a":1}`, "deny", "DENY_URL_INVALID"),
		of("d", `"url":"https://shop.test/","allowlist_key":"adds","body":{"pin":1}`, "deny", "DENY_BODY"),
		of("e", `"url":"https://shop.test/","allowlist_key":"adds","body":"text"`, "deny", "DENY_BODY"),
		of("f", `"url":"https://shop.test/","allowlist_key":"adds","body":{"gen":"nest","depth":3}`, "deny", "DENY_BODY"),
		of("g", `"url":"https://shop.test/","allowlist_key":"adds","body":{"gen":"json","text":"{\"p\\u0069n\":1}"}`, "deny", "DENY_BODY"),
		of("h", `"url":"https://shop.test/","allowlist_key":"adds"`, "deny", "DENY_BODY"),
		of("i", `"url":"https://shop.test/","allowlist_key":"later"`, "deny", "DENY_KEY_UNKNOWN"),
	)
	require.NoError(t, err)
	require.Equal(t, 9, sum.Passed, "%+v", sum)
}

// line is a case of the shop: a request's members, what DNS says, what is expected.
func line(id, request, resolver, expected, code string) string {
	return fmt.Sprintf(`{"id":%q,%s,"request":{%s},"resolver":{%s},"expected":%q,"code":%q,"level":"must"}`, id, shop, request, resolver, expected, code)
}

func run(t *testing.T, o executor.Checker, lines ...string) (map[string]casefile.Result, casefile.Summary, error) {
	t.Helper()
	var out bytes.Buffer
	sum, err := casefile.Run(strings.NewReader(strings.Join(lines, "\n")), &out, o)
	results := map[string]casefile.Result{}
	printed := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, l := range printed[:len(printed)-1] {
		var r casefile.Result
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		results[r.ID] = r
	}
	var tail struct {
		Summary casefile.Summary `json:"summary"`
	}
	require.NoError(t, json.Unmarshal([]byte(printed[len(printed)-1]), &tail))
	require.Equal(t, sum, tail.Summary)
	require.Equal(t, sum.Cases, sum.Passed+sum.Missed+sum.Skipped+sum.Malformed)
	return results, sum, err
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const (
		get = `"method":"GET",`
		at  = `"method":"POST","url":"https://shop.test/api/x","allowlist_key":"shop"`
		dns = `"shop.test":[["93.184.216.34"],["127.0.0.1"]]`
	)
	cases := []struct{ request, resolver, expected, code string }{
		{at, dns, "allow", "OK"},
		{get + `"url":"http://localhost:3000/"`, `"localhost":[["127.0.0.1","::1"]]`, "allow", "OK"},
		{get + `"url":"http://localhost:4222/"`, `"localhost":[["127.0.0.1"]]`, "deny", "DENY_ADDRESS"},
		{get + `"url":"http://other.test/"`, ``, "deny", "DENY_HOST"},
		{`"url":"http://localhost/","method":null`, ``, "deny", "VALIDATION_ERROR"},
		{`"url":"http://localhost/"`, ``, "deny", "VALIDATION_ERROR"},

		// the door's own checks
		{get + `"url":"https://shop.test/api/x","allowlist_key":null`, dns, "allow", "OK"},
		{get + `"url":"https://shop.test/api/x","allowlist_key":""`, dns, "deny", "VALIDATION_ERROR"},
		{get + `"url":"https://shop.test/api/x","allowlist_key":["shop"]`, dns, "deny", "VALIDATION_ERROR"},
		{get + `"url":7,"allowlist_key":"shop"`, dns, "deny", "VALIDATION_ERROR"},
		{get + `"url":null,"allowlist_key":"shop"`, dns, "deny", "VALIDATION_ERROR"},
		{get + `"url":"shop.test/api"`, dns, "deny", "DENY_URL_INVALID"},
		{`"method":7,"url":"https://shop.test/api/x","allowlist_key":"shop"`, dns, "deny", "VALIDATION_ERROR"},
		{`"method":"FETCH","url":"https://shop.test/api/x","allowlist_key":"shop"`, dns, "deny", "DENY_METHOD"},
		{at + `,"headers":["A: b"]`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"headers":{"A":1}`, dns, "deny", "DENY_HEADER"},
		{at + `,"headers":{"A":null}`, dns, "deny", "DENY_HEADER"},
		{at + `,"headers":{"A":"1","A":"2"}`, dns, "deny", "INVALID_REQUEST"},
		{at + `,"headers":{"A":"1","a":"2"}`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"headers":{"X-Shop-Token":"1"}`, dns, "deny", "DENY_HEADER"},
		{at + `,"headers":{"Authorization":"Bearer x"}`, dns, "deny", "DENY_HEADER"},
		{get + `"url":"http://localhost/","headers":{"Authorization":"Bearer x"}`, `"localhost":[["127.0.0.1"]]`, "allow", "OK"},
		{at + `,"headers":{"Accept":"a/b"}`, dns, "allow", "OK"},
		{`"method":"PUT","url":"https://shop.test/api/x","allowlist_key":"shop","headers":{"A":1}`, dns, "deny", "DENY_METHOD"},
		{at + `,"headers":{"Idempotency-Key":"a"},"idempotency_key":"b"`, dns, "deny", "DENY_HEADER"},
		{at + `,"idempotency_key":"b"`, dns, "allow", "OK"},
		{at + `,"idempotency_key":"a\nb"`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"timeout_ms":30001`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"request_id":"a b"`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"retries":3`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"postcondition":[]`, dns, "deny", "VALIDATION_ERROR"},

		// a request with parameters is a decision of a plan
		{at + `,"params":{"../a":"b c&d","e":true,"f":null,"g":1.5}`, dns, "allow", "OK"},
		{`"url":"https://shop.test/api/x?a=%C3%A9","allowlist_key":"shop","params":{"é":"é"}`, dns, "allow", "OK"},
		{`"url":"https://shop.test/api/x","params":{"a":"b"}`, dns, "deny", "DENY_KEY_UNKNOWN"},
		{at + `,"params":["a"]`, dns, "deny", "VALIDATION_ERROR"},
		{at + `,"params":{"a":"` + strings.Repeat("é", 2000) + `"}`, dns, "deny", "DENY_URL_INVALID"},
		{at + `,"params":{"a":1},"retries":3`, dns, "allow", "OK"},

		// bodies
		{at + `,"body":{"a":[1,{"b":null}]}`, dns, "allow", "OK"},
		{at + `,"body":"text"`, dns, "allow", "OK"},
		{at + `,"body":null`, dns, "allow", "OK"},
		{at + `,"body":{"gen":"json","text":"null"}`, dns, "allow", "OK"},
		{at + `,"body":{"gen":"json","text":"{"}`, dns, "deny", "INVALID_REQUEST"},
		{at + `,"body":{"gen":"json","text":"1 2"}`, dns, "deny", "INVALID_REQUEST"},
		{at + `,"body":{"gen":"json","text":"{\"a\":1,\"a\":2}"}`, dns, "deny", "INVALID_REQUEST"},
		{at + `,"body":{"gen":"json","text":"[{\"a\":1},{\"a\":{\"a\":2}}]"}`, dns, "allow", "OK"},
		{at + `,"body":{"gen":"nest","depth":62}`, dns, "allow", "OK"},
		{at + `,"body":{"gen":"nest","depth":63}`, dns, "deny", "INVALID_REQUEST"},
		{at + `,"body":` + strings.Repeat("[", 65) + strings.Repeat("]", 65), dns, "deny", "INVALID_REQUEST"},
		{at + `,"body":{"gen":"json","text":"` + strings.Repeat("[", 5000) + `"}`, dns, "deny", "INVALID_REQUEST"},
		{at + `,"body":{"gen":"repeat","unit":"ab","count":524287}`, dns, "allow", "OK"},
		{at + `,"body":{"gen":"repeat","unit":"ab","count":524288}`, dns, "deny", "DENY_BODY"},

		// the first answer of DNS
		{at, `"shop.test":[["93.184.216.34","10.0.0.1"]]`, "deny", "DENY_ADDRESS"},
		{at, `"*":[["93.184.216.34"]]`, "allow", "OK"},
		{at, `"shop.test":["NXDOMAIN"]`, "deny", "UPSTREAM_DNS"},
		{at, `"shop.test":[["EMPTY"]]`, "deny", "UPSTREAM_DNS"},
		{at, `"shop.test":[[]]`, "deny", "UPSTREAM_DNS"},
		{at, ``, "deny", "UPSTREAM_DNS"},
		{at, `"shop.test":["CNAME:a.test"],"a.test":[["CNAME:b.test"]],"b.test":[["93.184.216.34"]]`, "allow", "OK"},
		{at, `"shop.test":["CNAME:a.test"],"a.test":[["10.0.0.1"]]`, "deny", "DENY_ADDRESS"},
		{at, `"shop.test":["CNAME:shop.test"]`, "deny", "UPSTREAM_DNS"},
	}
	var lines []string
	for i, c := range cases {
		lines = append(lines, line(strconv.Itoa(i), c.request, c.resolver, c.expected, c.code))
	}
	results, sum, err := run(t, executor.Checker{Postcondition: func(json.RawMessage) (bool, error) { return true, errors.New("no") }}, lines...)
	require.NoError(t, err)
	for i, c := range cases {
		r := results[strconv.Itoa(i)]
		require.Equal(t, c.code, string(r.Code), "%s {%s}", c.request, c.resolver)
		require.Equal(t, c.expected, r.Verdict)
		require.True(t, r.Pass)
	}
	require.Equal(t, len(cases), sum.Passed)
}

func TestPassing(t *testing.T) {
	t.Parallel()
	request := `"request":{"method":"GET","url":"https://other.test/","allowlist_key":"shop"}`
	results, sum, err := run(t, executor.Checker{},
		`{"id":"right",`+shop+`,`+request+`,"expected":"deny","code":"DENY_HOST","level":"must"}`,
		`{"id":"verdict",`+shop+`,`+request+`,"expected":"allow","code":"OK","level":"must"}`,
		`{"id":"code",`+shop+`,`+request+`,"expected":"deny","code":"DENY_PORT"}`,
		`{"id":"advice",`+shop+`,`+request+`,"expected":"deny","code":"DENY_PORT","level":"strict"}`,
		`{"id":"no code",`+shop+`,`+request+`,"expected":"deny"}`,
		``,
		`{"id":"dynamic",`+shop+`,`+request+`,"expected":"allow","static":false}`,
		`{"id":"rule",`+shop+`,`+request+`,"expected":"allow","assert":{"rule":{"type":"redirect"}}}`,
	)
	require.NoError(t, err)
	require.Equal(t, casefile.Summary{Cases: 7, Passed: 3, Missed: 2, Skipped: 2}, sum)
	require.True(t, results["right"].Pass)
	require.False(t, results["verdict"].Pass)
	require.False(t, results["code"].Pass)
	require.True(t, results["advice"].Pass)
	require.True(t, results["no code"].Pass)
}

func TestMalformedCasesNameTheirLine(t *testing.T) {
	t.Parallel()
	request := `"request":{"method":"GET","url":"https://shop.test/api/"},"expected":"deny"`
	_, sum, err := run(t, executor.Checker{},
		`{"id":"fine",`+shop+`,`+request+`,"code":"UPSTREAM_DNS"}`,
		`{`,
		`{`+shop+`,`+request+`}`,
		`{"id":"x",`+request+`}`,
		`{"id":"x",`+shop+`,"expected":"deny"}`,
		`{"id":"x",`+shop+`,"request":{"url":""},"expected":"maybe"}`,
		`{"id":"x","policy":{"entries":[{"name":"a"}]},`+request+`}`,
		`{"id":"x",`+shop+`,`+request+`,"resolver":{"a":[7]}}`,
	)
	for n, want := range map[int]string{2: "not a case", 3: "id is missing", 4: "policy is missing", 5: "request has no url", 6: "maybe", 7: `entry "a": url_prefix`, 8: "resolver"} {
		require.ErrorContains(t, err, fmt.Sprintf("line %d: ", n))
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "line 1:")
	require.Equal(t, 7, sum.Malformed)
	require.Equal(t, 1, sum.Passed)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestWriteErrorsAreReported(t *testing.T) {
	t.Parallel()
	_, err := casefile.Run(strings.NewReader(""), brokenWriter{}, executor.Checker{})
	require.ErrorContains(t, err, "no room")
}

func FuzzRun(f *testing.F) {
	f.Add([]byte(line("a", `"method":"GET","url":"https://shop.test/api/x"`, ``, "deny", "")))
	f.Add([]byte("{\n[]\nnull"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		sum, _ := casefile.Run(bytes.NewReader(b), &out, executor.Checker{})
		require.Equal(t, sum.Cases, sum.Passed+sum.Missed+sum.Skipped+sum.Malformed)
	})
}

// TestCorpus decides the static rows of the outbound corpus as POST /v1/execute does: forms
// of addresses, hosts, paths, ports, headers, bodies and the ranges behind a name, without a
// network. It is the only suite that runs all of them. TestOutbound of integration/corpus
// sends some of each category over the wire.
func TestCorpus(t *testing.T) {
	t.Parallel()
	schemas := jsonschema.NewCache(jsonschema.CacheConfig{})
	options := executor.Checker{Schema: func(doc json.RawMessage) error {
		_, err := schemas.Compile(doc)
		return err
	}}
	rows := 0
	for _, file := range []string{"outbound.jsonl", "outbound_own.jsonl"} {
		data, err := os.ReadFile("../../../integration/corpus/testdata/" + file)
		require.NoError(t, err)
		for line := range bytes.Lines(data) {
			var row struct {
				ID     string `json:"id"`
				Static *bool  `json:"static"`
				Why    string `json:"why"`
			}
			require.NoError(t, json.Unmarshal(line, &row))
			require.NotNil(t, row.Static, "%s: static is missing", row.ID)
			if !*row.Static {
				continue
			}
			rows++
			t.Run(row.ID, func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				sum, err := casefile.Run(bytes.NewReader(line), &out, options)
				require.NoError(t, err)
				assert.Equal(t, casefile.Summary{Cases: 1, Passed: 1}, sum, "%s: %s", row.Why, out.String())
			})
		}
	}
	assert.Positive(t, rows)
}
