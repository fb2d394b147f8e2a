package traffic_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/schemas"
)

func noon() time.Time { return time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC) }

func base(id, kind, pattern string) schemas.Rule {
	return schemas.Rule{
		ID: id, Group: schemas.DefaultGroup, Type: kind, Enabled: true,
		Match: schemas.RuleMatch{URLPattern: pattern, Method: "ANY"},
	}
}

func delay(id string, ms int64) schemas.Rule {
	r := base(id, schemas.RuleDelay, "*")
	r.Action.DelayMS = &ms
	return r
}

func redirect(id, from, to string) schemas.Rule {
	r := base(id, schemas.RuleRedirect, from)
	r.Action.ToURL = to
	return r
}

func mock(id, pattern, body string) schemas.Rule {
	r := base(id, schemas.RuleMock, pattern)
	r.Action.BodyMode, r.Action.Body = "json", json.RawMessage(body)
	return r
}

func headers(id, pattern string, request, response []schemas.HeaderChange) schemas.Rule {
	r := base(id, schemas.RuleHeaders, pattern)
	r.Action.RequestHeaders, r.Action.ResponseHeaders = request, response
	return r
}

func compile(tb testing.TB, doc schemas.RuleSet) *traffic.Set {
	tb.Helper()
	s, err := traffic.Compile(doc, "etag-1-x")
	require.NoError(tb, err)
	return s
}

// setOf is an active set of rules.
func setOf(tb testing.TB, rules ...schemas.Rule) *traffic.Set {
	tb.Helper()
	return compile(tb, schemas.RuleSet{GlobalActive: true, Rules: rules})
}

func get(url string) traffic.Call { return traffic.Call{Method: "GET", URL: url} }
