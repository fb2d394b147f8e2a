package completion_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/schemas"
)

// BenchmarkChunk is what one chunk of a stream costs from the event's data to the delta that
// is written, by what it holds.
func BenchmarkChunk(b *testing.B) {
	call := strings.Replace(streamed, `"content":" token"`, `"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"P"}}]`, 1)
	for name, raw := range map[string]string{
		"text": streamed, "call": call, "large": strings.Replace(streamed, " token", strings.Repeat("some words ", 10_000), 1),
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(raw)
			var texts completion.Texts
			var found completion.Found
			var whole completion.Assembler
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%1000 == 0 {
					whole = completion.Assembler{}
				}
				c, err := completion.ReadChunk(data)
				if err != nil || !texts.Read(c.Raw, &found) {
					b.Fatal(err)
				}
				whole.Add(c)
				c.Raw = completion.Named(c.Raw, "id")
				c.Raw, _ = completion.WithoutUsage(c)
				completion.Merge([]json.RawMessage{c.Raw, c.Raw})
			}
		})
	}
}

// BenchmarkChunkPart is the same by its steps.
func BenchmarkChunkPart(b *testing.B) {
	data := []byte(streamed)
	c, err := completion.ReadChunk(data)
	require.NoError(b, err)
	var texts completion.Texts
	var found completion.Found
	var whole completion.Assembler
	n := 0
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"read", func() { _, _ = completion.ReadChunk(data) }},
		{"texts", func() { texts.Read(c.Raw, &found) }},
		{"add", func() {
			if n++; n%1000 == 0 {
				whole = completion.Assembler{}
			}
			whole.Add(c)
		}},
		{"usage", func() { completion.WithoutUsage(c) }},
		{"merge", func() { completion.Merge([]json.RawMessage{c.Raw, c.Raw}) }},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				part.do()
			}
		})
	}
}

// BenchmarkRequest is what a request of 256 messages costs.
func BenchmarkRequest(b *testing.B) {
	message := `{"role":"user","content":"` + strings.Repeat("some words ", 100) + `\n"},`
	body := []byte(`{"model":"a","messages":[` + strings.TrimSuffix(strings.Repeat(message, 256), ",") + `],"n":` + strconv.Itoa(1) + `}`)
	b.Run("prompt", func(b *testing.B) {
		for b.Loop() {
			completion.Prompt(schemas.DialectChat, body)
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			_, err := completion.Request(body, completion.Change{Model: "b", Usage: true})
			require.NoError(b, err)
		}
	})
}
