// Package static_test decides the rows of the outbound corpus that need no network, as POST /v1/execute
// does on a node without traffic rules; one with params as POST /v1/plans does.
package static_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress/executor"
	"weir/internal/jsonschema"
)

const shop = `"policy":{"entries":[{"name":"shop","url_prefix":"https://shop.test/api/","methods":["GET","POST"],` +
	`"headers":{"X-Shop-Token":"${secret:CASE}"},"caller_params":["*"],"upstream_idempotency":{"ttl":60000000000}}],"allowed_hosts":["localhost"],"self_ports":[4222],"self_hosts":["me.test"]}`

// A case may try a shadow entry, and what the worker adds to query and body.
func TestEntriesOfEveryKind(t *testing.T) {
	t.Parallel()
	const policy = `"policy":{"entries":[` +
		`{"name":"adds","url_prefix":"https://shop.test/","methods":["POST"],"query":{"key":"${secret:K}"},"body":{"pin":"${secret:P}"},"caller_params":["a"]},` +
		`{"name":"later","url_prefix":"https://shop.test/","mode":"shadow"}]}`
	of := func(id, request, expected, code string) string {
		return fmt.Sprintf(`{"id":%q,%s,"request":{"method":"POST",%s},"resolver":{"shop.test":[["93.184.216.34"]]},"expected":%q,"code":%q,"level":"must"}`,
			id, policy, request, expected, code)
	}
	for _, line := range []string{
		of("a", `"url":"https://shop.test/?a=1","allowlist_key":"adds","body":{"a":1}`, "allow", "OK"),
		of("b", `"url":"https://shop.test/?k%65y=1","allowlist_key":"adds","body":{"a":1}`, "deny", "DENY_URL_INVALID"),
		of("c", `"url":"https://shop.test/","allowlist_key":"adds","params":{"key":1},"body":{"a":1}`, "deny", "DENY_URL_INVALID"),
		of("d", `"url":"https://shop.test/","allowlist_key":"adds","body":{"pin":1}`, "deny", "DENY_BODY"),
		of("e", `"url":"https://shop.test/","allowlist_key":"adds","body":"text"`, "deny", "DENY_BODY"),
		of("f", `"url":"https://shop.test/","allowlist_key":"adds","body":{"gen":"nest","depth":3}`, "deny", "DENY_BODY"),
		of("g", `"url":"https://shop.test/","allowlist_key":"adds","body":{"gen":"json","text":"{\"p\\u0069n\":1}"}`, "deny", "DENY_BODY"),
		of("h", `"url":"https://shop.test/","allowlist_key":"adds"`, "deny", "DENY_BODY"),
		of("i", `"url":"https://shop.test/","allowlist_key":"later"`, "deny", "DENY_KEY_UNKNOWN"),
	} {
		check(t, []byte(line), executor.Checker{})
	}
}

// line is a case of the shop: a request's members, what DNS says, what is expected.
func line(id, request, resolver, expected, code string) string {
	return fmt.Sprintf(`{"id":%.80q,%s,"request":{%s},"resolver":{%s},"expected":%q,"code":%q,"level":"must"}`, id, shop, request, resolver, expected, code)
}

// check holds the verdict of a row against the expected one.
func check(t *testing.T, line []byte, checker executor.Checker) {
	t.Helper()
	var r row
	require.NoError(t, json.Unmarshal(line, &r))
	p, err := r.Policy.compile()
	require.NoError(t, err, r.ID)
	code := evaluate(p, &r, checker)
	verdict := map[bool]string{true: "allow", false: "deny"}[code == codeOK]
	assert.Equal(t, r.Expected, verdict, "%s: %s: %s", r.ID, r.Why, code)
	if r.Level == "must" {
		assert.EqualValues(t, r.Code, code, "%s: %s", r.ID, r.Why)
	}
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
	checker := executor.Checker{Postcondition: func(json.RawMessage) (bool, error) { return true, errors.New("no") }}
	for _, c := range cases {
		check(t, []byte(line(c.request, c.request, c.resolver, c.expected, c.code)), checker)
	}
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
		data, err := os.ReadFile("../testdata/" + file)
		require.NoError(t, err)
		for line := range bytes.Lines(data) {
			var r row
			require.NoError(t, json.Unmarshal(line, &r))
			require.NotNil(t, r.Static, "%s: static is missing", r.ID)
			if !*r.Static {
				continue
			}
			require.Contains(t, []string{"must", "strict"}, r.Level, r.ID)
			rows++
			t.Run(r.ID, func(t *testing.T) {
				t.Parallel()
				check(t, line, options)
			})
		}
	}
	assert.Positive(t, rows)
}
