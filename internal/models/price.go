package models

import (
	"cmp"
	"math"
	"math/big"

	"weir/schemas"
)

// Cost is what a usage costs in billionths of a US dollar, rounded up; of tokens that the provider
// read from its cache or stored in it at their own price if there is one. Counts below zero count
// nothing, and what is too much for the type is the most that it holds.
func Cost(p *schemas.ModelPrice, u schemas.ChatUsage, requests int64) int64 {
	if p == nil {
		return 0
	}
	prompt := max(u.Prompt, 0)
	cached := min(max(u.Cached, 0), prompt)
	written := min(max(u.CacheWrites, 0), prompt-cached)
	// A provider's counts are not to be trusted: their products do not fit into an int64.
	tokens := product(prompt-cached-written, p.Input)
	tokens.Add(tokens, product(cached, cmp.Or(p.Cached, p.Input)))
	tokens.Add(tokens, product(written, cmp.Or(p.CacheWrite, p.Input)))
	tokens.Add(tokens, product(u.Completion, p.Output))
	const perThousand = 1000
	tokens.Add(tokens, big.NewInt(perThousand-1)).Div(tokens, big.NewInt(perThousand)) // rounded up
	return clamp(tokens.Add(tokens, product(requests, p.Request)))
}

// product multiplies counts; negative ones count as zero.
func product(a, b int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(max(a, 0)), big.NewInt(max(b, 0)))
}

func clamp(n *big.Int) int64 {
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// Times multiplies counts that are not below zero; too much is the most there is.
func Times(a, b int64) int64 { return clamp(product(a, b)) }

// Plus adds counts that are not below zero; too much is the most there is.
func Plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Sum is what two calls have used together. It has a price where both have.
func Sum(a, b schemas.ChatUsage) schemas.ChatUsage {
	return schemas.ChatUsage{
		Prompt: Plus(a.Prompt, b.Prompt), Completion: Plus(a.Completion, b.Completion), Total: Plus(a.Total, b.Total),
		Cached: Plus(a.Cached, b.Cached), CacheWrites: Plus(a.CacheWrites, b.CacheWrites), Reasoning: Plus(a.Reasoning, b.Reasoning),
		Estimated: a.Estimated || b.Estimated, Nanos: Plus(a.Nanos, b.Nanos), Priced: a.Priced && b.Priced,
	}
}

// What an image counts for a model of whose images the configuration says nothing.
const (
	// mostImage is for what is held. Providers part an image in tiles or patches and bound
	// their number; the most that is published is 48169 tokens, of an image of eight tiles
	// for gpt-4o-mini.
	mostImage = 49_152
	// usualImage is for what is charged where a provider does not tell: more than nearly
	// every model counts for an image of a usual size.
	usualImage = 2048
)

// Image is how many tokens of a prompt one image is for a model: at most, and where
// no usage was reported. A nil model is unknown.
func Image(m *schemas.Model) (most, usual int64) {
	said := int64(0)
	if m != nil {
		said = m.ImageTokens
	}
	return cmp.Or(said, mostImage), cmp.Or(said, usualImage)
}
