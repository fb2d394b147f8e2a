package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/redact"
	"weir/internal/weirtest/table"
)

const key = "zq-CANARY-0123456789"

// through gives chunks to a holder one by one, and what had come by each.
func through(t *testing.T, s *redact.Scrubber, chunks ...string) (out []string, after []int) {
	t.Helper()
	h := newHolder(s)
	for _, raw := range chunks {
		c, err := completion.ReadChunk([]byte(raw))
		require.NoError(t, err)
		list, ok := h.add(c)
		require.True(t, ok)
		for _, c := range list {
			out = append(out, string(c.Raw))
		}
		after = append(after, len(out))
	}
	list, err := h.end()
	require.NoError(t, err)
	for _, c := range list {
		out = append(out, string(c.Raw))
	}
	require.Len(t, out, len(chunks))
	return out, after
}

func content(index int, text, more string) string {
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string
	return fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":%s}%s}]}`, index, quoted, more)
}

func TestHolder(t *testing.T) {
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
		got, after := through(t, s, tt.in...)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, tt.after, after)
	})
}

// TestHolderIsBounded: what waits for nothing is decided.
func TestHolderIsBounded(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{key})
	h := newHolder(s)
	c, err := completion.ReadChunk([]byte(content(0, "zq-CANARY", "")))
	require.NoError(t, err)
	given := 0
	list, ok := h.add(c)
	require.True(t, ok)
	require.Empty(t, list)
	other, err := completion.ReadChunk([]byte(content(1, strings.Repeat("x", 1000), "")))
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

func FuzzHolder(f *testing.F) {
	f.Add(`{"choices":[{"index":0,"delta":{"content":"zq-CAN"}}]}`, `{"choices":[{"index":0,"delta":{"content":"ARY-0123456789"}}]}`)
	f.Add(`{"choices":[{"logprobs":{"content":[{"token":"zq-CANARY-0123456789"}],"logprobs":{}},"delta":{"x":[[{}]]}}]}`, `{"choices":[{"index":-1}],"a":{"b":[1,"\\"]}}`)
	s := redact.Values([]string{key})
	f.Fuzz(func(t *testing.T, a, b string) {
		h := newHolder(s)
		var got []completion.Chunk
		n := 0
		for _, raw := range []string{a, b} {
			c, err := completion.ReadChunk([]byte(raw))
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

//nolint:paralleltest // it counts the allocations of the process
func TestHolderAllocates(t *testing.T) {
	h := newHolder(redact.Values([]string{key}))
	c, err := completion.ReadChunk([]byte(content(0, " token", `,"finish_reason":null`)))
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(200, func() { h.add(c) }))
}
