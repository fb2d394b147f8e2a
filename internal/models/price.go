package models

import (
	"math"
	"math/bits"

	"weir/schemas"
)

// Cost is what a usage costs in billionths of a US dollar, rounded up; of cached tokens
// at their own price if there is one. Counts below zero count nothing, and what is too
// much for the type is the most that it holds.
func Cost(p *schemas.ModelPrice, u schemas.ChatUsage, requests int64) int64 {
	if p == nil {
		return 0
	}
	cached := min(max(u.Cached, 0), max(u.Prompt, 0))
	cachedPrice := p.Cached
	if cachedPrice == 0 {
		cachedPrice = p.Input
	}
	var t tally
	t.add(max(u.Prompt, 0)-cached, p.Input)
	t.add(cached, cachedPrice)
	t.add(u.Completion, p.Output)
	tokens := t.perThousand()
	t = tally{}
	t.add(requests, p.Request)
	return Plus(tokens, t.whole())
}

// tally is a sum of products of counts and prices. A provider's counts are not to be
// trusted: four of the largest products do not overflow it.
type tally struct{ hi, lo uint64 }

func (t *tally) add(count, price int64) {
	if count <= 0 || price <= 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(count), uint64(price))
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, lo, 0)
	t.hi += hi + carry
}

// perThousand is the sum over a thousand, rounded up.
func (t *tally) perThousand() int64 {
	const thousand = 1000
	if t.hi >= thousand {
		return math.MaxInt64
	}
	quo, rem := bits.Div64(t.hi, t.lo, thousand)
	if rem > 0 && quo < math.MaxUint64 {
		quo++
	}
	return clamp(quo)
}

func (t *tally) whole() int64 {
	if t.hi > 0 {
		return math.MaxInt64
	}
	return clamp(t.lo)
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

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
		Cached: Plus(a.Cached, b.Cached), Reasoning: Plus(a.Reasoning, b.Reasoning),
		Estimated: a.Estimated || b.Estimated, Nanos: Plus(a.Nanos, b.Nanos), Priced: a.Priced && b.Priced,
	}
}
