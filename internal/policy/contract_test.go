package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// bound is an entry with every member of a contract that can be combined.
func bound() policy.Entry {
	return policy.Entry{
		Name: "pay", URLPrefix: "https://pay.test/", Methods: []string{"GET", "PUT", "POST", "PATCH"},
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour, Header: "X-Request-Key", Derive: true},
		Contract: policy.Contract{
			Retry:      &policy.Retry{Attempts: 4, Base: time.Second, Cap: time.Minute, On: []int{503, 409}},
			NeverRetry: &policy.NeverRetry{Status: []int{502, 501}, Header: map[string]string{"X-Should-Retry": " False "}},
			Reconcile: &policy.Reconcile{
				Method: "GET", URL: "https://pay.test/orders", Applied: "response.status == 200", NotApplied: "response.status == 404", Within: time.Minute,
			},
			ResponseSchema: &policy.ResponseSchema{Schema: []byte(`{"type":"object"}`), Mode: policy.SchemaRedact},
		},
	}
}

func TestContractIsRefused(t *testing.T) {
	t.Parallel()
	none := &policy.Idempotency{TTL: time.Hour}
	for want, change := range map[string]func(*policy.Entry){
		"upstream_idempotency: ttl must be positive":                         func(e *policy.Entry) { e.UpstreamIdempotency = &policy.Idempotency{Derive: true} },
		"upstream_idempotency: derive is for POST and PATCH":                 func(e *policy.Entry) { e.Methods, e.Reconcile = []string{"GET"}, nil },
		"upstream_idempotency: header \"a b\" is not":                        func(e *policy.Entry) { e.UpstreamIdempotency.Header = "a b" },
		"upstream_idempotency: header Authorization has another meaning":     func(e *policy.Entry) { e.UpstreamIdempotency.Header = "Authorization" },
		"upstream_idempotency: header content_type has another meaning":      func(e *policy.Entry) { e.UpstreamIdempotency.Header = "content_type" },
		"upstream_idempotency: header X-Request-Key is in headers":           func(e *policy.Entry) { e.Headers = map[string]string{"x-request-key": "a"} },
		"retry: attempts 0 is not in 1 to 20":                                func(e *policy.Entry) { e.Retry.Attempts = 0 },
		"retry: attempts 21 is not":                                          func(e *policy.Entry) { e.Retry.Attempts = 21 },
		"retry: base 0s is not":                                              func(e *policy.Entry) { e.Retry.Base = 0 },
		"retry: cap 1s is not in 2s, the base, to 24h":                       func(e *policy.Entry) { e.Retry.Base, e.Retry.Cap = 2*time.Second, time.Second },
		"retry: on is empty":                                                 func(e *policy.Entry) { e.Retry.On = []int{} },
		"retry: on: 200 is not the status of a failure":                      func(e *policy.Entry) { e.Retry.On = []int{503, 200} },
		"retry: on: 429 appears twice":                                       func(e *policy.Entry) { e.Retry.On = []int{429, 503, 429} },
		"never_retry: empty":                                                 func(e *policy.Entry) { e.NeverRetry = &policy.NeverRetry{} },
		"never_retry: status: 302 is not":                                    func(e *policy.Entry) { e.NeverRetry.Status = []int{302} },
		"never_retry: status 503 is in on of retry too":                      func(e *policy.Entry) { e.NeverRetry.Status = []int{503} },
		"never_retry: header \"a b\" is not a header name":                   func(e *policy.Entry) { e.NeverRetry.Header = map[string]string{"a b": "c"} },
		"never_retry: header x appears twice":                                func(e *policy.Entry) { e.NeverRetry.Header = map[string]string{"X": "a", "x": "b"} },
		"never_retry: header X needs a value":                                func(e *policy.Entry) { e.NeverRetry.Header = map[string]string{"X": " "} },
		"requires_key: derive of upstream_idempotency gives":                 func(e *policy.Entry) { e.RequiresKey = true },
		"requires_key: a key permits no repeat without upstream_idempotency": func(e *policy.Entry) { e.RequiresKey, e.UpstreamIdempotency = true, nil },
		"requires_key: the entry lists neither POST nor PATCH": func(e *policy.Entry) {
			e.RequiresKey, e.UpstreamIdempotency, e.Methods, e.Reconcile = true, none, []string{"GET"}, nil
		},
		"reconcile: method \"POST\" is not GET or HEAD": func(e *policy.Entry) { e.Reconcile.Method = "POST" },
		"reconcile: the entry does not list HEAD":       func(e *policy.Entry) { e.Reconcile.Method = "HEAD" },
		"reconcile: the entry lists neither POST nor": func(e *policy.Entry) {
			e.Methods, e.UpstreamIdempotency = []string{"GET", "PUT"}, none
		},
		"reconcile: url is missing":                                    func(e *policy.Entry) { e.Reconcile.URL = "" },
		"reconcile: applied, character 1: undeclared reference to 'x'": func(e *policy.Entry) { e.Reconcile.Applied = "x" },
		"reconcile: url, character 26: undeclared":                     func(e *policy.Entry) { e.Reconcile.URL += "/{x}" },
		"reconcile: url: the entry does not permit it: ":               func(e *policy.Entry) { e.Reconcile.URL = "https://other.test/orders" },
		"reconcile: applied is missing":                                func(e *policy.Entry) { e.Reconcile.Applied = "" },
		"reconcile: within 1ms is not in 1s to 24h":                    func(e *policy.Entry) { e.Reconcile.Within = time.Millisecond },
		"response_schema: schema is missing":                           func(e *policy.Entry) { e.ResponseSchema.Schema = nil },
		"response_schema: mode \"loose\" is not":                       func(e *policy.Entry) { e.ResponseSchema.Mode = "loose" },
		"response_schema: a schema is an object or a boolean":          func(e *policy.Entry) { e.ResponseSchema.Schema = []byte(`[1]`) },
		"caller_headers: X-Request-Key is the header for keys": func(e *policy.Entry) {
			e.Query, e.CallerHeaders = map[string]string{"a": "b"}, []string{"X-Request-Key"}
		},
	} {
		e := bound()
		change(&e)
		_, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
		require.ErrorContains(t, err, `entry "pay": `+want)
	}
	_ = compile(t, policy.Config{Entries: []policy.Entry{bound()}})
}

func TestKeysAreDeclared(t *testing.T) {
	t.Parallel()
	required := bound()
	required.Name, required.RequiresKey, required.UpstreamIdempotency.Derive = "strict", true, false
	p := compile(t, policy.Config{Entries: []policy.Entry{bound(), required}})
	ask := func(key, method, idempotency string, headers ...schemas.Header) policy.Decision {
		return p.Decide(policy.Request{Key: key, Method: method, URL: "https://pay.test/orders", IdempotencyKey: idempotency, Headers: headers})
	}
	for _, method := range []string{"POST", "PATCH"} {
		d := ask("strict", method, "")
		require.Equal(t, schemas.DenyHeader, d.Code)
		require.Contains(t, d.Reason, "requires an idempotency key")
		require.True(t, ask("strict", method, "k").Allowed)
		require.True(t, ask("pay", method, "").Allowed)
	}
	require.True(t, ask("strict", "GET", "").Allowed)
	require.True(t, ask("strict", "PUT", "").Allowed)
	for _, name := range []string{"X-Request-Key", "x_request_key", "Idempotency-Key"} {
		require.Equal(t, schemas.DenyHeader, ask("pay", "POST", "k", schemas.Header{Name: name, Value: "mine"}).Code, name)
	}
	x := p.Explain(policy.Request{Key: "strict", Method: "POST", URL: "https://pay.test/orders"})
	require.Equal(t, "set idempotency_key, or set derive in upstream_idempotency of entry strict in place of requires_key", x.Remedy)
	require.Nil(t, x.Contract)
}

func TestContractIsExplained(t *testing.T) {
	t.Parallel()
	required := bound()
	required.Name, required.RequiresKey, required.UpstreamIdempotency.Derive = "strict", true, false
	p := compile(t, policy.Config{Entries: []policy.Entry{
		bound(), required, {Name: "plain", URLPrefix: "https://pay.test/", Methods: []string{"GET", "POST"}, Limits: policy.Limits{Rate: "1/s", Concurrency: 2}},
	}})
	explain := func(key, method, idempotency string) (schemas.Class, schemas.Contract) {
		x := p.Explain(policy.Request{Key: key, Method: method, URL: "https://pay.test/orders", IdempotencyKey: idempotency})
		require.True(t, x.Allowed, x.Reason)
		return x.Class, *x.Contract
	}
	never := &schemas.EntryNeverRetry{Status: []int{501, 502}, Header: map[string]string{"x-should-retry": "false"}}
	class, c := explain("pay", "POST", "")
	require.Equal(t, schemas.ClassKeyed, class)
	require.Equal(t, schemas.Contract{
		Attempts: 4, Base: "1s", Cap: "1m0s", RetryOn: []string{"409", "503"}, NeverRetry: never,
		Key: schemas.KeyDerived, KeyHeader: "X-Request-Key", KeyTTL: "1h0m0s", Probe: true, ResponseSchema: "redact",
	}, c)
	_, c = explain("strict", "POST", "mine")
	require.Equal(t, schemas.KeyCaller, c.Key)
	require.True(t, c.RequiresKey)
	class, c = explain("pay", "GET", "")
	require.Equal(t, schemas.ClassSafe, class)
	require.Equal(t, schemas.KeyNone, c.Key)
	require.False(t, c.Probe)
	class, c = explain("plain", "POST", "")
	require.Equal(t, schemas.ClassOnce, class)
	require.Equal(t, schemas.Contract{Attempts: 3, Base: "200ms", Cap: "2s", RetryOn: []string{}, Key: schemas.KeyNone}, c)
	_, c = explain("plain", "GET", "")
	require.Equal(t, []string{"429", "5xx"}, c.RetryOn)

	v := p.View(time.Time{}, nil, false)
	require.Equal(t, schemas.EntryView{
		Name: "pay", URLPrefix: "https://pay.test/", Methods: []string{"GET", "PATCH", "POST", "PUT"}, Network: "public", Mode: "enforce",
		UpstreamIdempotencyTTL: "1h0m0s", IdempotencyHeader: "X-Request-Key", DerivesKey: true,
		Retry: &schemas.EntryRetry{Attempts: 4, Base: "1s", Cap: "1m0s", On: []int{409, 503}}, NeverRetry: never,
		Reconcile: &schemas.EntryReconcile{
			Method: "GET", URL: "https://pay.test/orders", Applied: "response.status == 200", NotApplied: "response.status == 404", Within: "1m0s",
		},
		ResponseSchema: &schemas.EntrySchema{Mode: "redact", Schema: []byte(`{"type":"object"}`)},
	}, v.Entries[0])
	require.True(t, v.Entries[1].RequiresKey)
	require.Equal(t, &schemas.EntryLimits{Rate: "1/s", Concurrency: 2}, v.Entries[2].Limits)
}
