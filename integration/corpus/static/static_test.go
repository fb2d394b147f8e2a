// Package static_test decides the rows of the outbound corpus that need no network, as POST /v1/execute
// does on a node without traffic rules; one with params as POST /v1/plans does.
package static_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress/executor"
	"weir/internal/jsonschema"
)

// check holds the verdict of a row against the expected one.
func check(t *testing.T, line []byte, checker executor.Checker) {
	t.Helper()
	var r row
	require.NoError(t, json.Unmarshal(line, &r))
	p, err := r.Policy.compile()
	require.NoError(t, err, r.ID)
	code := answerTo(p, &r, checker)
	verdict := map[bool]string{true: "allow", false: "deny"}[code == codeOK]
	assert.Equal(t, r.Expected, verdict, "%s: %s: %s", r.ID, r.Why, code)
	if r.Level == "must" {
		assert.EqualValues(t, r.Code, code, "%s: %s", r.ID, r.Why)
	}
}

// TestCorpus decides the static rows of the outbound corpus as POST /v1/execute does: forms
// of addresses, hosts, paths, ports, headers, bodies and the ranges behind a name, without a
// network. It is the only suite that runs all of them. TestOutbound of integration/corpus
// sends some of each category over the wire.
func TestCorpus(t *testing.T) {
	t.Parallel()
	schemas := new(jsonschema.Cache)
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
