// Package traceparent carries the span that work is a part of, as W3C Trace Context
// writes it, from where a request comes in to where a call goes out.
package traceparent

import "context"

type key struct{}

// With returns a context of work that is a part of this span. The text is one that
// schemas.ValidTraceParent holds for, or empty: then ctx itself is returned.
func With(ctx context.Context, span string) context.Context {
	if span == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, span)
}

// From is the parent span of work with this context; empty: none was given.
func From(ctx context.Context) string {
	span, _ := ctx.Value(key{}).(string)
	return span
}
