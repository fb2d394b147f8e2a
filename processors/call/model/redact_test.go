package model

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/redact"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

const key = "zq-CANARY-0123456789"

var chat = completion.For(schemas.DialectChat)

func content(index int, text, more string) string {
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string
	return fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":%s}%s}]}`, index, quoted, more)
}

func TestRedactor(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{key})
	type testCase struct {
		in, want []string
		after    []int
	}
	table.Run(t, map[string]testCase{
		"nothing of it": {
			in:    []string{content(0, "a z", ""), content(0, "q b", ""), `{"choices":[],"usage":{"n":1.50}}`},
			want:  []string{content(0, "a z", ""), content(0, "q b", ""), `{"choices":[],"usage":{"n":1.50}}`},
			after: []int{1, 2, 3},
		},
		"looks like it": {
			in:    []string{content(0, "zq-CAN", ""), content(0, "DY", "")},
			want:  []string{content(0, "zq-CAN", ""), content(0, "DY", "")},
			after: []int{0, 2},
		},
		"in two": {
			in:    []string{content(0, "é\"zq-CANARY", ""), content(0, "-0123456789\"!", "")},
			want:  []string{content(0, "é\"REDACTED", ""), content(0, "\"!", "")},
			after: []int{0, 2},
		},
		"other choices wait as well, and are not part of it": {
			in:    []string{content(0, "zq-CANARY", ""), content(1, "-0123456789", ""), content(0, "-0123456789", "")},
			want:  []string{content(0, "REDACTED", ""), content(1, "-0123456789", ""), content(0, "", "")},
			after: []int{0, 0, 3},
		},
		"the end of the choice decides": {
			in:    []string{content(0, "a zq-C", ""), content(0, "", `,"finish_reason":"stop"`)},
			want:  []string{content(0, "a zq-C", ""), content(0, "", `,"finish_reason":"stop"`)},
			after: []int{0, 2},
		},
		"half of it at the end": {
			in:    []string{content(0, "a zq-CANARY-01", ""), content(0, "", `,"finish_reason":"stop"`)},
			want:  []string{content(0, "a REDACTED", ""), content(0, "", `,"finish_reason":"stop"`)},
			after: []int{0, 2},
		},
		"in the arguments of a tool, by its index": {
			in: []string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"k\":\"zq-CANARY"}},{"index":0,"function":{"arguments":"x"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"-0123456789\"}"},"index":1}]}}]}`,
			},
			want: []string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"k\":\"REDACTED"}},{"index":0,"function":{"arguments":"x"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"\"}"},"index":1}]}}]}`,
			},
			after: []int{0, 2},
		},
		"its tokens go with it": {
			in: []string{
				content(0, "zq-CANARY", `,"logprobs":{"content":[{"token":"zq-CANARY","bytes":[122]}]},"x":[1.50]`),
				content(0, "-0123456789", `,"logprobs":{"content":[{"token":"-0123456789"}]},"finish_reason":"stop"`),
				content(0, "", `,"logprobs":null`),
			},
			want: []string{
				content(0, "REDACTED", `,"logprobs":null,"x":[1.50]`), content(0, "", `,"logprobs":null,"finish_reason":"stop"`), content(0, "", `,"logprobs":null`),
			},
			after: []int{0, 2, 3},
		},
		"the tokens alone": {
			in: []string{
				`{"choices":[{"index":0,"logprobs":{"content":[{"token":"zq-CANA"},{"token":"RY-0123"},{"token":"456789"}]},"delta":{"content":"a"}}]}`,
			},
			want:  []string{`{"choices":[{"index":0,"logprobs":null,"delta":{"content":"a"}}]}`},
			after: []int{1},
		},
	}, func(t *testing.T, tt testCase) {
		got, after := clean(t, schemas.DialectChat, s, tt.in...)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, tt.after, after)
	})
}

// TestRedactorIsBounded: what waits for nothing is decided.
func TestRedactorIsBounded(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{key})
	h := newRedactor(s, chat)
	c, err := chat.Read("", []byte(content(0, "zq-CANARY", "")))
	require.NoError(t, err)
	given := 0
	list, ok := h.add(c)
	require.True(t, ok)
	require.Empty(t, list)
	other, err := chat.Read("", []byte(content(1, strings.Repeat("x", 1000), "")))
	require.NoError(t, err)
	for range 1200 {
		list, ok = h.add(other)
		require.True(t, ok)
		given += len(list)
		require.LessOrEqual(t, len(h.queue), maxQueue)
		require.LessOrEqual(t, h.bytes, maxQueued)
	}
	assert.NotZero(t, given)
}

func FuzzRedactor(f *testing.F) {
	f.Add(`{"choices":[{"index":0,"delta":{"content":"zq-CAN"}}]}`, `{"choices":[{"index":0,"delta":{"content":"ARY-0123456789"}}]}`)
	f.Add(`{"choices":[{"logprobs":{"content":[{"token":"zq-CANARY-0123456789"}],"logprobs":{}},"delta":{"x":[[{}]]}}]}`, `{"choices":[{"index":-1}],"a":{"b":[1,"\\"]}}`)
	s := redact.Values([]string{key})
	f.Fuzz(func(t *testing.T, a, b string) {
		h := newRedactor(s, chat)
		var got []completion.Chunk
		n := 0
		for _, raw := range []string{a, b} {
			c, err := chat.Read("", []byte(raw))
			if err != nil {
				continue
			}
			n++
			list, ok := h.add(c)
			require.True(t, ok)
			got = append(got, list...)
		}
		list, err := h.end()
		require.NoError(t, err)
		require.Len(t, append(got, list...), n)
	})
}

// TestRedactorCosts: an answer that is made of names is refused, or costs no more than
// what it has.
//
//nolint:paralleltest // it counts the allocations of the process
func TestRedactorCosts(t *testing.T) {
	many := func(n int, member string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, member, i)
			b.WriteByte(',')
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	long := strings.Repeat("n", 70<<10)
	for name, tt := range map[string]struct {
		chunk string
		ok    bool
	}{
		"a long path to many":    {`{"choices":[{"` + long + `":{` + many(4000, `"%d":"x"`) + `}}]}`, true},
		"many in a long path":    {`{"choices":[{"` + long + `":{"` + long + `":[` + many(4000, `{"index":%d,"x":"y"}`) + `]}}]}`, true},
		"many names":             {`{"choices":[{"a":{` + many(10_000, `"%d":"x"`) + `}}]}`, false},
		"many choices":           {`{"choices":[` + many(10_000, `{"index":%d,"delta":{"content":"x"}}`) + `]}`, false},
		"many calls":             {`{"choices":[{"delta":{"tool_calls":[` + many(20_000, `{"index":%d,"function":{"arguments":"x"}}`) + `]}}]}`, true},
		"many elements":          {`{"choices":[{"delta":{"x":[` + many(9000, `{"index":%d,"y":"x"}`) + `]}}]}`, false},
		"many long names":        {`{"choices":[{` + many(10, `"`+long+`%d":"x"`) + `}]}`, false},
		"many texts":             {`{"choices":[{"a":[` + many(132_000, `"%d"`) + `]}]}`, false},
		"many empty texts":       {`{"choices":[{"a":[` + strings.Repeat(`"",`, 140_000) + `""]}]}`, true},
		"many of one name":       {`{"choices":[{` + many(5000, `"message":{"x":%d}`) + `}]}`, true},
		"all deep in each other": {`{"choices":[` + strings.Repeat(`{"a":[`, 120) + `"x"` + strings.Repeat(`]}`, 120) + `]}`, false},
	} {
		c, err := chat.Read("", []byte(tt.chunk))
		require.NoError(t, err, name)
		h := newRedactor(redact.Values([]string{key}), chat)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, ok := h.add(c)
		runtime.ReadMemStats(&after)
		assert.Equal(t, tt.ok, ok, name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), name)
	}
}
