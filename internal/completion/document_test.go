package completion_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestDocuments: an answer without a stream is one chunk.
func TestDocuments(t *testing.T) {
	t.Parallel()
	type testCase struct {
		dialect schemas.Dialect
		in      string
		usage   *schemas.ChatUsage
		fault   *completion.Fault
		refused bool
	}
	e, n := schemas.DialectEmbeddings, schemas.DialectCount
	const list = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.0010,-1e-3]}],"model":"m"`
	table.Run(t, map[string]testCase{
		"embeddings":           {dialect: e, in: list + `,"usage":{"prompt_tokens":5,"total_tokens":5}}`, usage: &schemas.ChatUsage{Prompt: 5, Total: 5}},
		"the total alone":      {dialect: e, in: list + `,"usage":{"total_tokens":5}}`, usage: &schemas.ChatUsage{Prompt: 5, Total: 5}},
		"no usage":             {dialect: e, in: list + `}`},
		"a wrong usage":        {dialect: e, in: list + `,"usage":{"prompt_tokens":-5,"total_tokens":5}}`},
		"an error":             {dialect: e, in: `{"error":{"message":"no","code":"model_not_found"}}`, fault: &completion.Fault{Status: 404, Message: "no", Code: "model_not_found"}},
		"no embeddings":        {dialect: e, in: `{"object":"list"}`, refused: true},
		"a completion":         {dialect: e, in: `{"object":"chat.completion","choices":[]}`, refused: true},
		"a count":              {dialect: n, in: `{"input_tokens":2095,"context_management":{"original_input_tokens":7}}`},
		"an error of Messages": {dialect: n, in: `{"type":"error","error":{"type":"not_found_error","message":"no"}}`, fault: &completion.Fault{Status: 404, Message: "no", Type: "not_found_error"}},
		"a count that is none": {dialect: n, in: `{"input_tokens":"x"}`, refused: true},
		"a message":            {dialect: n, in: `{"type":"message","content":[],"input_tokens":1}`, refused: true},
		"an event":             {dialect: n, in: `{"type":"ping"}`, refused: true},
		"embeddings for count": {dialect: n, in: list + `}`, refused: true},
		"no JSON":              {dialect: n, in: `x`, refused: true},
		"no JSON to embed":     {dialect: e, in: `x`, refused: true},
	}, func(t *testing.T, tt testCase) {
		p := completion.For(tt.dialect)
		c, err := p.Read("", []byte(tt.in))
		if tt.refused {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		assert.Equal(t, tt.usage, c.Usage)
		assert.Equal(t, tt.fault, c.Fault)
		if tt.fault != nil {
			return
		}
		assert.True(t, c.Last)
		assert.Equal(t, tt.in, string(c.Raw))
		events, err := p.Split(c.Raw, true)
		require.NoError(t, err)
		assert.Equal(t, []json.RawMessage{c.Raw}, events)
		a, given := collect(t, tt.dialect, completion.Options{ID: "act"}, tt.in)
		assert.Equal(t, []string{tt.in}, given)
		assert.Equal(t, tt.in, string(a.Document()))
		assert.False(t, a.Finished(), "its only chunk is the last")
		assert.Equal(t, tt.usage, a.Usage())
		assert.Nil(t, a.Reasons())
		assert.Zero(t, a.Output())
	})
}
