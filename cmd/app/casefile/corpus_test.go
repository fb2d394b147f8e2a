package casefile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app/casefile"
	"weir/internal/jsonschema"
)

// TestCorpus decides the static rows of the outbound corpus as `weir policy test` does: forms
// of addresses, hosts, paths, ports, headers, bodies and the ranges behind a name, without a
// network. It is the only suite that runs all of them. TestOutbound of integration/corpus
// sends some of each category over the wire.
func TestCorpus(t *testing.T) {
	t.Parallel()
	schemas := jsonschema.NewCache(jsonschema.CacheConfig{})
	options := casefile.Options{CheckSchema: func(doc json.RawMessage) error {
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
