package traffic_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"weir/internal/ledger"
	"weir/internal/traffic"
	"weir/schemas"
)

var update = flag.Bool("update", false, "write what was got as what is expected")

const fixtures = "../../schemas/rules/testdata"

// refusal is what an invalid fixture expects.
type refusal struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// TestFixtures reads the rules of the fixtures at noon of 31 January 2030: valid ones
// come out as their rule.json, invalid ones with their error.json.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for kind, part := range map[string]string{"valid": "rule.json", "invalid": "error.json"} {
		files, err := filepath.Glob(filepath.Join(fixtures, kind, "*.txtar"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			t.Run(kind+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				ar, err := txtar.ParseFile(file)
				require.NoError(t, err)
				raw := slices.Clone(ar.Files[0].Data)
				r, err := traffic.Read(raw, noon())
				require.Equal(t, kind == "valid", err == nil, "%v", err)
				var got any = r
				if err != nil {
					got = asRefusal(t, err)
				}
				data, err := ledger.Encode(got)
				require.NoError(t, err)
				if len(data) > 4096 {
					data = []byte(`"too long to be shown"`)
				}
				if *update {
					ar.Files = append(ar.Files[:1], txtar.File{Name: part, Data: append(data, '\n')})
					require.NoError(t, os.WriteFile(file, txtar.Format(ar), 0o600))
					return
				}
				require.Len(t, ar.Files, 2)
				require.Equal(t, part, ar.Files[1].Name)
				require.Equal(t, strings.TrimSpace(string(ar.Files[1].Data)), string(data))
				require.Equal(t, raw, ar.Files[0].Data, "what was read is as it was")
				if kind == "valid" {
					survives(t, r)
				}
			})
		}
	}
}

func asRefusal(tb testing.TB, err error) refusal {
	tb.Helper()
	bad, ok := errors.AsType[*traffic.Invalid](err)
	require.True(tb, ok, "%v", err)
	return refusal{bad.Pointer, bad.Message}
}

// survives: a rule that was read can be stored, compiled, and patched with nothing
// and with itself.
func survives(tb testing.TB, r schemas.Rule) {
	tb.Helper()
	data, err := ledger.Encode(r)
	require.NoError(tb, err)
	var stored schemas.Rule
	require.NoError(tb, json.Unmarshal(data, &stored))
	_, err = traffic.Compile(schemas.RuleSet{GlobalActive: true, Rules: []schemas.Rule{stored}}, "e")
	require.NoError(tb, err)
	same, err := traffic.Patch(stored, json.RawMessage(`{}`), noon())
	require.NoError(tb, err)
	again, err := ledger.Encode(same)
	require.NoError(tb, err)
	require.Equal(tb, string(data), string(again))
}

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
