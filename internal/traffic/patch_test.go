package traffic_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/traffic"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func read(tb testing.TB, raw string) schemas.Rule {
	tb.Helper()
	r, err := traffic.Read(json.RawMessage(raw), noon())
	require.NoError(tb, err)
	return r
}

func encode(tb testing.TB, v any) string {
	tb.Helper()
	data, err := ledger.Encode(v)
	require.NoError(tb, err)
	return string(data)
}

const (
	aDelay = `{"id":"d","name":"slow","group":"g","type":"delay","priority":5,"match":{"url_pattern":"https://a.example/*","method":"POST","include_query":true},"action":{"delay_ms":5},"scope":{"agent":"A","task_id":"t"},"expires_at":"2030-02-01T00:00:00Z"}`
	aMock  = `{"id":"m","type":"mock","match":{"url_pattern":"*"},"action":{"status":201,"body":{"a":1},"headers":{"X-A":"1","X-B":"2"}}}`
	aSet   = `{"id":"h","type":"headers","match":{"url_pattern":"*"},"action":{"request_headers":[{"op":"remove","name":"a"}],"response_headers":[{"op":"remove","name":"b"}]}}`
)

// Each patch gives the rule that reading the whole would have given.
func TestPatch(t *testing.T) {
	t.Parallel()
	type testCase struct{ rule, patch, want string }
	table.Run(t, map[string]testCase{
		"nothing":            {aDelay, `{}`, aDelay},
		"unknown":            {aDelay, `{"color":"red"}`, aDelay},
		"same id":            {aDelay, `{"id":"d","group":"g"}`, aDelay},
		"enabled":            {`{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5}}`, `{"enabled":false}`, `{"id":"d","enabled":false,"type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5}}`},
		"action":             {`{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5}}`, `{"action":{"delay_ms":0}}`, `{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":0}}`},
		"match in part":      {`{"id":"d","type":"delay","match":{"url_pattern":"*","method":"POST"},"action":{"delay_ms":5}}`, `{"match":{"url_pattern":"https://b.example/"}}`, `{"id":"d","type":"delay","match":{"url_pattern":"https://b.example/","method":"POST"},"action":{"delay_ms":5}}`},
		"nulls":              {aDelay, `{"name":null,"priority":null,"scope":null,"expires_at":null,"match":{"method":null,"include_query":null}}`, `{"id":"d","group":"g","type":"delay","match":{"url_pattern":"https://a.example/*"},"action":{"delay_ms":5}}`},
		"scope in part":      {`{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5},"scope":{"agent":"A"}}`, `{"scope":{"task_id":"t"}}`, `{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5},"scope":{"agent":"A","task_id":"t"}}`},
		"last of the scope":  {`{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5},"scope":{"agent":"A"}}`, `{"scope":{"agent":null}}`, `{"id":"d","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":5}}`},
		"body":               {aMock, `{"action":{"body":[1]}}`, `{"id":"m","type":"mock","match":{"url_pattern":"*"},"action":{"status":201,"body":[1],"headers":{"X-A":"1","X-B":"2"}}}`},
		"no body":            {aMock, `{"action":{"body":null,"body_mode":null,"status":204}}`, `{"id":"m","type":"mock","match":{"url_pattern":"*"},"action":{"status":204,"headers":{"X-A":"1","X-B":"2"}}}`},
		"mock headers":       {aMock, `{"action":{"headers":{"x-a":"3","X-B":null}}}`, `{"id":"m","type":"mock","match":{"url_pattern":"*"},"action":{"status":201,"body":{"a":1},"headers":{"x-a":"3"}}}`},
		"no mock headers":    {aMock, `{"action":{"headers":null,"status":null}}`, `{"id":"m","type":"mock","match":{"url_pattern":"*"},"action":{"body":{"a":1}}}`},
		"lists are replaced": {aSet, `{"action":{"request_headers":[{"op":"set","name":"c","value":"1"}]}}`, `{"id":"h","type":"headers","match":{"url_pattern":"*"},"action":{"request_headers":[{"op":"set","name":"c","value":"1"}],"response_headers":[{"op":"remove","name":"b"}]}}`},
		"a list goes":        {aSet, `{"action":{"response_headers":null}}`, `{"id":"h","type":"headers","match":{"url_pattern":"*"},"action":{"request_headers":[{"op":"remove","name":"a"}]}}`},
		"another type":       {aMock, `{"type":"delay","action":{"delay_ms":7}}`, `{"id":"m","type":"delay","match":{"url_pattern":"*"},"action":{"delay_ms":7}}`},
		"the same type":      {aMock, `{"type":"mock"}`, aMock},
	}, func(t *testing.T, c testCase) {
		r := read(t, c.rule)
		before := encode(t, r)
		got, err := traffic.Patch(r, json.RawMessage(c.patch), noon())
		require.NoError(t, err)
		require.Equal(t, encode(t, read(t, c.want)), encode(t, got))
		require.Equal(t, before, encode(t, r), "the rule that was patched is as it was")
	})
}

func TestPatchRefuses(t *testing.T) {
	t.Parallel()
	type testCase struct{ rule, patch, pointer string }
	table.Run(t, map[string]testCase{
		"no object":            {aDelay, `[]`, ""},
		"null":                 {aDelay, `null`, ""},
		"nothing at all":       {aDelay, ``, ""},
		"another id":           {aDelay, `{"id":"e"}`, "/id"},
		"no id":                {aDelay, `{"id":null}`, "/id"},
		"another group":        {aDelay, `{"group":"h"}`, "/group"},
		"case":                 {aDelay, `{"ENABLED":false}`, ""},
		"no pattern":           {aDelay, `{"match":{"url_pattern":null}}`, "/match/url_pattern"},
		"no match":             {aDelay, `{"match":null}`, "/match"},
		"no type":              {aDelay, `{"type":null}`, "/type"},
		"no action":            {aDelay, `{"action":null}`, "/action"},
		"no delay":             {aDelay, `{"action":{"delay_ms":null}}`, "/action/delay_ms"},
		"negative":             {aDelay, `{"action":{"delay_ms":-1}}`, "/action/delay_ms"},
		"of another type":      {aDelay, `{"action":{"to_url":"https://b.example/"}}`, "/action/to_url"},
		"type without action":  {aDelay, `{"type":"mock"}`, "/action"},
		"type with the old":    {aDelay, `{"type":"mock","action":{"delay_ms":5}}`, "/action/delay_ms"},
		"a question mark left": {`{"id":"d","type":"delay","match":{"url_pattern":"https://a.example/?*","include_query":true},"action":{"delay_ms":5}}`, `{"match":{"include_query":false}}`, "/match/url_pattern"},
		"a wildcard less":      {`{"id":"r","type":"redirect","match":{"url_pattern":"https://a.example/*"},"action":{"to_url":"https://b.example/$1"}}`, `{"match":{"url_pattern":"https://a.example/"}}`, "/action/to_url"},
		"text of an object":    {aMock, `{"action":{"body_mode":"text"}}`, "/action/body"},
		"no list left":         {`{"id":"h","type":"headers","match":{"url_pattern":"*"},"action":{"request_headers":[{"op":"remove","name":"a"}]}}`, `{"action":{"request_headers":[]}}`, "/action"},
		"past":                 {aDelay, `{"expires_at":"2030-01-01T00:00:00Z"}`, "/expires_at"},
	}, func(t *testing.T, c testCase) {
		_, err := traffic.Patch(read(t, c.rule), json.RawMessage(c.patch), noon())
		require.Equal(t, c.pointer, asRefusal(t, err).Pointer, "%v", err)
	})
}

func TestInvalidSpeaks(t *testing.T) {
	t.Parallel()
	r := read(t, aDelay) // one that has expired may be changed, but for that
	got, err := traffic.Patch(r, json.RawMessage(`{"priority":6}`), r.ExpiresAt.Add(1))
	require.NoError(t, err)
	require.Equal(t, r.ExpiresAt, got.ExpiresAt)
	_, err = traffic.Patch(r, json.RawMessage(`{"expires_at":"2030-02-01T00:00:00Z"}`), r.ExpiresAt.Add(1))
	require.EqualError(t, err, "at /expires_at: must be in the future")
	_, err = traffic.Read(json.RawMessage(`1`), noon())
	require.EqualError(t, err, "the rule must be an object")
	_, err = traffic.Read(json.RawMessage(`{"id":1}`), noon())
	require.EqualError(t, err, "at /id: must be a string")
	_, ok := errors.AsType[*traffic.Invalid](traffic.MockHeader("Set-Cookie", "a"))
	require.True(t, ok)
	require.NoError(t, traffic.MockHeader("Location", "https://a.example/"))
}
