package executor

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/strict"
	"weir/internal/problem"
	"weir/schemas"
)

// routeBatch is a part of the ids that are derived from an Idempotency-Key: it must never change.
const routeBatch = "/v1/batch"

// The limits of a whole batch. Its requests have the limits of any other: strict.Check checks each.
var batchLimits = strict.Limits{Depth: 1000, Members: 1 << 20} //nolint:gochecknoglobals // a constant

// batch is a batch while its requests are stored.
type batch struct {
	items    []schemas.BatchItem
	waits    []time.Duration // of the items with a receipt
	releases []func()
	requests []accept.Request
	indexes  []int // of the requests among the items
}

// batch stores the requests of a batch together, each as an action of its own, and answers for each.
func (cfg Config) batch(s *ingress.Server) ingress.Handler {
	return func(c *gin.Context) error {
		defer s.ReserveBody(c)()
		key, terms, err := accept.ReadHeaders(c.Request.Header, s.Now())
		if err != nil {
			return err
		}
		body, err := s.ReadUpTo(c, s.MaxBody(), batchLimits)
		if err != nil {
			return err
		}
		bodies, err := readBatch(body)
		if err != nil {
			return err
		}
		n := len(bodies)
		b := &batch{items: make([]schemas.BatchItem, n), waits: make([]time.Duration, n), releases: make([]func(), n)}
		defer b.release()
		applied := cfg.translate(c, s, b, bodies, key, terms)
		for i, out := range s.AcceptAll(c, b.requests) {
			b.accepted(c, s, b.indexes[i], out)
		}
		if applied != "" {
			c.Writer.Header().Set("Preference-Applied", applied)
		}
		cfg.Batch(c.Writer, c.Request, ingress.Caller(c).Tenant, b.items,
			func(i int) time.Duration { return b.waits[i] }, func(i int) { b.releases[i]() })
		return nil
	}
}

// readBatch reads the requests of a batch, each undecoded.
func readBatch(body []byte) ([]jsontext.Value, error) {
	var doc struct {
		Requests jsontext.Value `json:"requests"`
	}
	if err := strict.Decode(body, &doc); err != nil {
		return nil, unfit(err)
	}
	var bodies []jsontext.Value
	if strict.Kind(doc.Requests) != '[' || json.Unmarshal(doc.Requests, &bodies) != nil {
		return nil, badArgument("requests", "must be a list of requests as POST /v1/execute takes them")
	}
	if n := len(bodies); n == 0 || n > schemas.MaxBatch {
		return nil, badArgument("requests", "a batch has 1 to "+strconv.Itoa(schemas.MaxBatch)+" requests, and this one has "+strconv.Itoa(n)+"; nothing was stored")
	}
	return bodies, nil
}

// translate turns each body into a request to store, or into an item that says what is wrong with it.
// A request is named by its request_id, else by the key of the batch and its index.
func (cfg Config) translate(c *gin.Context, s *ingress.Server, b *batch, bodies []jsontext.Value, key string, terms accept.Terms) (applied string) {
	who := ingress.Caller(c)
	policy := cfg.Policy(who.Asks(schemas.KindHTTP, ""))
	prefer := accept.Prefer(c.Request.Header.Values("Prefer"))
	b.requests = make([]accept.Request, 0, len(bodies)) // which stay where they are: Expect refers to them
	_, applied = s.Wait(prefer, terms.NotBefore, false)
	for i, body := range bodies {
		b.items[i].Index, b.releases[i] = i, func() {}
		var order ingress.Order
		err := strict.Check(body, strict.Limits{})
		if err == nil {
			order, err = cfg.order(who, policy, body)
		}
		var req accept.Request
		if err == nil {
			req, err = order.Request(who, schemas.KindHTTP, nameOf(who, order.ID, key, i), terms)
		}
		if err != nil {
			b.refuse(c, s, i, err)
			continue
		}
		b.waits[i], _ = s.Wait(prefer, terms.NotBefore, order.Denied)
		b.requests, b.indexes = append(b.requests, req), append(b.indexes, i)
		if b.waits[i] != 0 {
			b.releases[i] = s.Expect(&b.requests[len(b.requests)-1])
		}
	}
	return applied
}

func nameOf(who ingress.Identity, requestID, key string, index int) accept.Name {
	if requestID == "" && key != "" {
		return accept.Derive(accept.PrefixKey, schemas.IDKey, who.Tenant, who.Keys(routeBatch), key, strconv.Itoa(index))
	}
	return accept.NameOf(who.Tenant, routeBatch, requestID, "")
}

// accepted notes the result of storing a request. A repeat of a batch joins its actions, ended or not.
func (b *batch) accepted(c *gin.Context, s *ingress.Server, i int, out accept.Result) {
	item := &b.items[i]
	item.ActionID = out.ID
	if out.Err != nil && !accept.InFlight(out.Err) {
		b.refuse(c, s, i, out.Err)
		return
	}
	item.Receipt, item.Replayed = &out.Receipt, out.Replayed
}

// refuse answers a request of which nothing is stored, or of which it is unknown.
func (b *batch) refuse(c *gin.Context, s *ingress.Server, i int, err error) {
	p := problem.Of(err)
	status, e := refused(c, p, err)
	p.Status = status
	h := http.Header{}
	p.SetHeaders(h)
	item := &b.items[i]
	item.Status, item.Error = status, &e
	item.RetryAfter, _ = strconv.Atoi(h.Get("Retry-After")) // 0: there is none
	s.Refused(e.Code)
}

func (b *batch) release() {
	for _, release := range b.releases {
		if release != nil {
			release()
		}
	}
}
