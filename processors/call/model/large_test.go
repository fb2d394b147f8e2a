package model

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/redact"
)

// BenchmarkLarge tells what large chunks cost by what is in them: the worst of them must
// stay within a small factor of the best.
func BenchmarkLarge(b *testing.B) {
	scrub := redact.Values([]string{"Bearer sk-supersecret-0123456789", "sk-supersecret-0123456789"})
	const size = 10_000
	for name, text := range map[string]string{
		"words":  strings.Repeat("the quick brown fox returns a token, and sk- stands ", size/52),
		"letter": strings.Repeat("B", size),
		"secret": strings.Repeat("s", size),
		"random": base64Text(size),
		"escape": strings.Repeat(`\n`+"\t\"", size/4),
	} {
		b.Run(name, func(b *testing.B) {
			quoted, err := json.Marshal(text)
			require.NoError(b, err)
			data := fmt.Appendf(nil, `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`, quoted)
			l := listener{scrub: scrub}
			held := newHolder(scrub)
			n := 0
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				c, err := l.clean(data)
				if err != nil {
					b.Fatal(err)
				}
				list, _ := held.add(c)
				for _, c := range list {
					l.whole.Add(c)
				}
				if n++; n%100 == 0 {
					l.whole = completion.Assembler{}
				}
			}
		})
	}
}

// base64Text is a text in which any part of an encoding may begin anywhere.
func base64Text(size int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range size {
		text.WriteByte(alphabet[r.IntN(len(alphabet))])
	}
	return text.String()
}
