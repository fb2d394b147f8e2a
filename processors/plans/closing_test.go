package plans

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestClosingRecordFits: whatever a plan's size, its closing record is one that
// the log takes, and says what became of the plan.
func TestClosingRecordFits(t *testing.T) {
	t.Parallel()
	for n, has := range map[int]string{2: "response_snippet", 600: "response_hash", 5_000: "execution_hash"} {
		steps := make([]Step, n)
		for i := range steps {
			steps[i] = Step{EffectRef: fmt.Sprintf("effect-%d", i), Hash: strings.Repeat("a", 64), Snippet: strings.Repeat("x", 512)}
		}
		record := closingRecord(Report(nil, json.RawMessage(`{}`), steps))
		assert.LessOrEqual(t, len(record), schemas.InlineLimit, n)
		var doc map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(record, &doc))
		assert.JSONEq(t, `"succeeded"`, string(doc["status"]))
		assert.Contains(t, string(record), has)
	}
}
