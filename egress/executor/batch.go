package executor

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/wire"
	"weir/schemas"
)

// keptResult is the size up to which the result of an ended action stays in memory until it is
// written. The log is read again for a larger one.
const keptResult = 8 << 10

// Batcher answers for actions that one request has made together.
type Batcher struct{ server *egress.Server }

// NewBatcher returns a Batcher.
func NewBatcher(s *egress.Server) Batcher { return Batcher{s} }

// batch is one answer.
type batch struct {
	server *egress.Server
	w      http.ResponseWriter
	r      *http.Request
	tenant string
	items  []schemas.BatchItem
	ends   []*schemas.Settled // by item; nil: its action has not ended, or there is none
	large  []bool             // by item: the action has ended with a result that was not kept
}

// item is a schemas.BatchItem whose result and error are as POST /v1/execute writes them.
type item struct {
	Index      int              `json:"index"`
	ActionID   string           `json:"action_id,omitempty"`
	Status     int              `json:"status"`
	Replayed   bool             `json:"replayed,omitempty"`
	Result     json.RawMessage  `json:"result,omitempty"`
	Error      json.RawMessage  `json:"error,omitempty"`
	Receipt    *schemas.Receipt `json:"receipt,omitempty"`
	RetryAfter int              `json:"retry_after,omitempty"`
}

// Answer answers a batch. An item with a receipt is an accepted action of the tenant: its end is
// waited for as wait says, negative for as long as the client waits and 0 not at all. release is
// called once the feed need not keep that end. One document is rendered at a time.
func (b Batcher) Answer(
	w http.ResponseWriter, r *http.Request, tenant string, items []schemas.BatchItem,
	wait func(i int) time.Duration, release func(i int),
) {
	a := &batch{
		server: b.server, w: w, r: r, tenant: tenant, items: items,
		ends: make([]*schemas.Settled, len(items)), large: make([]bool, len(items)),
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body's, which would end the wait
	status := http.StatusOK                                        // of an answer that begins before all have ended
	for i := range items {
		if items[i].Receipt != nil && wait(i) == 0 {
			status = http.StatusAccepted
		}
	}
	done := a.await(wait, release) //nolint:contextcheck // it has the context of the request
	if stream.Names(r, schemas.MediaNDJSON) {
		a.writeLines(status, done) //nolint:contextcheck // as above
	} else {
		a.writeList(done) //nolint:contextcheck // as above
	}
	if r.Context().Err() != nil {
		wire.Drop(r.Context())
	}
	for range done { // if the writer has given up, the goroutines end with the request
	}
}

// await sends the index of each item once it need not be waited for, and then closes the channel.
func (b *batch) await(wait func(i int) time.Duration, release func(i int)) <-chan int {
	done := make(chan int, len(b.items))
	var waiting sync.WaitGroup
	for i := range b.items {
		if b.items[i].Receipt == nil || wait(i) == 0 {
			done <- i
			continue
		}
		waiting.Go(func() {
			b.ends[i] = b.end(b.r.Context(), i, wait(i))
			if end := b.ends[i]; end != nil && len(end.Result) > keptResult {
				b.ends[i], b.large[i] = nil, true
			}
			release(i)
			done <- i
		})
	}
	go func() { waiting.Wait(); close(done) }()
	return done
}

// end waits for the end of an item's action; nil: it has not come in time.
func (b *batch) end(ctx context.Context, i int, wait time.Duration) *schemas.Settled {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	end, _, err := b.server.Feed().Await(ctx, b.ref(i), !b.items[i].Receipt.Duplicate && !b.large[i], false)
	if err != nil {
		return nil
	}
	return end.Event.Settled
}

func (b *batch) ref(i int) schemas.Ref {
	return schemas.Ref{Tenant: b.tenant, Kind: schemas.KindHTTP, ID: b.items[i].ActionID}
}

// writeList writes the items in the order of the requests, once all have ended or been waited for.
func (b *batch) writeList(done <-chan int) {
	for range done { // all must have ended
	}
	status := http.StatusOK
	for i := range b.items {
		if b.items[i].Receipt != nil && b.ends[i] == nil && !b.large[i] {
			status = http.StatusAccepted
		}
	}
	b.begin(status, "application/json")
	between := `{"items":[`
	for i := range b.items {
		if !b.write(i, between, "") {
			return
		}
		between = ","
	}
	_, _ = b.w.Write([]byte("]}")) // the client is gone if it fails
}

// writeLines writes a line for each item as its action ends.
func (b *batch) writeLines(status int, done <-chan int) {
	flush := http.NewResponseController(b.w).Flush
	b.begin(status, schemas.MediaNDJSON)
	for i := range done {
		if !b.write(i, "", "\n") {
			return
		}
		if len(done) == 0 {
			_ = flush() // a writer that cannot keeps the lines until the end
		}
	}
}

func (b *batch) begin(status int, media string) {
	if b.r.Context().Err() != nil {
		return // nothing is written to a client that is gone
	}
	b.w.Header().Set("Content-Type", media)
	b.w.WriteHeader(status)
}

// write writes an item between two texts, and reports whether the client still reads.
func (b *batch) write(i int, before, after string) bool {
	line, release, err := b.item(i)
	defer release()
	if err != nil || b.r.Context().Err() != nil {
		return false
	}
	for _, part := range [][]byte{[]byte(before), line, []byte(after)} {
		if _, err := b.w.Write(part); err != nil {
			return false
		}
	}
	return true
}

// item renders an item. The memory of a large document is reserved until release.
func (b *batch) item(i int) (line []byte, release func(), err error) {
	of := b.items[i]
	out := item{Index: i, ActionID: of.ActionID, Status: of.Status, Replayed: of.Replayed, RetryAfter: of.RetryAfter}
	release = func() {}
	end := b.ends[i]
	if b.large[i] {
		end = b.end(b.r.Context(), i, -1)
	}
	switch {
	case of.Error != nil:
		out.Error, err = ledger.Encode(of.Error)
	case end == nil:
		out.Status, out.Receipt = http.StatusAccepted, of.Receipt
	default:
		if release, err = b.ended(&out, end); err != nil {
			out.Status, out.Error, err = b.failed(err)
		}
	}
	if err == nil {
		line, err = ledger.Encode(out)
	}
	return line, release, err
}

// ended renders the end of an item's action.
func (b *batch) ended(out *item, end *schemas.Settled) (release func(), err error) {
	end = b.server.Resolved(b.r.Context(), b.ref(out.Index), end)
	doc, release, err := b.server.Document(b.r.Context(), b.tenant, end)
	if err != nil {
		return func() {}, err
	}
	var body []byte
	if out.Status, body, err = Render(b.ref(out.Index), end, doc); err != nil {
		return release, err
	}
	if end.Outcome == schemas.OutcomeSucceeded {
		out.Result = body
		return release, nil
	}
	out.Error = json.RawMessage(gjson.GetBytes(body, "error").Raw)
	return release, nil
}

// failed is an error of Weir's own in the executor's form.
func (b *batch) failed(cause error) (status int, doc json.RawMessage, err error) {
	p := problem.Of(cause)
	doc, err = ledger.Encode(schemas.ExecuteFault{
		Variant: schemas.VariantRequest, Message: p.Detail, Code: p.Code, Retryable: p.Retryable,
		RequestID: problem.RequestID(b.r.Context()),
	})
	return p.Status, doc, err
}
