package completion_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

const streamed = `{"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012","object":"chat.completion.chunk","created":1727000000,"model":"some-model-2024-08-06","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}`

func BenchmarkReadChunk(b *testing.B) {
	data := []byte(streamed)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = completion.ReadChunk(data)
	}
}

func BenchmarkAdd(b *testing.B) {
	c, err := completion.ReadChunk([]byte(streamed))
	require.NoError(b, err)
	var a completion.Assembler
	b.ReportAllocs()
	for b.Loop() {
		a.Add(c)
	}
}

func BenchmarkMerge(b *testing.B) {
	chunks := make([]json.RawMessage, 50)
	for i := range chunks {
		chunks[i] = json.RawMessage(streamed)
	}
	b.SetBytes(int64(len(chunks) * len(streamed)))
	b.ReportAllocs()
	for b.Loop() {
		completion.Merge(chunks)
	}
}

//nolint:paralleltest // it counts the allocations of the process
func TestAllocations(t *testing.T) {
	data := []byte(streamed)
	c, err := completion.ReadChunk(data)
	require.NoError(t, err)
	one, many := []json.RawMessage{c.Raw}, []json.RawMessage{c.Raw, c.Raw, c.Raw, c.Raw, c.Raw, c.Raw, c.Raw, c.Raw}
	for name, pin := range map[string]struct {
		most float64
		do   func()
	}{
		"read":          {1, func() { _, _ = completion.ReadChunk(data) }},
		"merge one":     {1, func() { completion.Merge(one) }},
		"merge many":    {3, func() { completion.Merge(many) }},
		"without usage": {1, func() { completion.WithoutUsage(c) }},
		"named":         {0, func() { completion.Named(c.Raw, "x") }},
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(200, pin.do), pin.most, name)
	}
}
