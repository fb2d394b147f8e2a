package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"weir/schemas"
)

// Completion is an action of kind chat that has ended.
type Completion struct {
	Action schemas.Action
	// Asked is the model as it was asked for.
	Asked   string
	Ended   time.Time
	Settled schemas.Settled
	Result  schemas.ChatResult
}

// maxReasons is how many reasons for an end a span holds.
const maxReasons = 16

// Chat sends the span of a completion: "chat" and the model's name, from its acceptance to
// its end, with the attributes of OpenTelemetry's conventions for generative AI. It is a
// child of what the caller named in traceparent, and otherwise a root. It holds names,
// numbers and words of closed sets, and nothing of the conversation. Its ids hang on the
// action alone, so that a repeat after a crash is the same span.
func (t *Traces) Chat(c Completion) {
	if t == nil {
		return
	}
	a := c.Action
	ctx := context.WithValue(context.Background(), actionKey{}, a.Tenant+"/"+string(a.Kind)+"/"+a.ID)
	ctx = t.parents.Extract(ctx, propagation.MapCarrier{"traceparent": a.TraceParent})
	_, span := t.tracer.Start(ctx, operationChat+" "+c.Asked, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.AcceptedAt))
	if span.IsRecording() {
		span.SetAttributes(attributes(c)...)
		if word := failure(c.Settled); word != "" {
			span.SetAttributes(attribute.String("error.type", word))
			span.SetStatus(codes.Error, word)
		}
	}
	span.End(trace.WithTimestamp(c.Ended))
}

// failure is the word for what went wrong; empty: nothing.
func failure(s schemas.Settled) string {
	switch {
	case s.Outcome == schemas.OutcomeSucceeded:
		return ""
	case s.Code == "":
		return string(s.Outcome)
	case !knownCode(string(s.Code)):
		return other
	default:
		return string(s.Code)
	}
}

func attributes(c Completion) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", operationChat),
		attribute.String("gen_ai.request.model", c.Asked),
		attribute.String("weir.action_id", c.Action.ID),
		attribute.String("weir.tenant", c.Action.Tenant),
		attribute.String("weir.outcome", string(c.Settled.Outcome)),
		attribute.Int("weir.attempts", c.Settled.Attempts),
	}
	if c.Result.Upstream != "" {
		list = append(list, attribute.String("gen_ai.provider.name", c.Result.Upstream))
	}
	model, reasons := answered(c.Result)
	if model != "" {
		list = append(list, attribute.String("gen_ai.response.model", model))
	}
	if len(reasons) > 0 {
		list = append(list, attribute.StringSlice("gen_ai.response.finish_reasons", reasons))
	}
	if u := c.Result.Usage; u != nil {
		list = append(list,
			attribute.Int64("gen_ai.usage.input_tokens", u.Prompt),
			attribute.Int64("gen_ai.usage.output_tokens", u.Completion),
			attribute.Bool("weir.usage_estimated", u.Estimated))
		if u.Priced {
			list = append(list, attribute.Float64("weir.cost_usd", float64(u.Nanos)/1e9))
		}
	}
	return list
}

// answered is which model an answer says it is of, and why its choices ended.
func answered(r schemas.ChatResult) (model string, reasons []string) {
	var doc struct {
		Model   string `json:"model"`
		Choices []struct {
			Reason string `json:"finish_reason"`
		} `json:"choices"`
	}
	if len(r.Completion) == 0 || json.Unmarshal(r.Completion, &doc) != nil {
		return "", nil
	}
	for _, c := range doc.Choices {
		if len(reasons) < maxReasons && c.Reason != "" {
			reasons = append(reasons, schemas.ChatReason(c.Reason))
		}
	}
	return schemas.ChatModel(r.Sent, doc.Model), reasons
}

// actionKey is what the name of a span's action has in a context.
type actionKey struct{}

// named makes ids of the name of an action.
type named struct{}

// NewIDs implements sdk.IDGenerator.
func (named) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	sum := digest(ctx)
	copy(id[:], sum[:16])
	copy(span[:], sum[16:])
	return id, span
}

// NewSpanID implements sdk.IDGenerator.
func (n named) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := n.NewIDs(ctx)
	return span
}

func digest(ctx context.Context) [sha256.Size]byte {
	name, ok := ctx.Value(actionKey{}).(string)
	if !ok {
		name = rand.Text()
	}
	return sha256.Sum256([]byte(name))
}
