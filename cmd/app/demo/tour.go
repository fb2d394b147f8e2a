// Package demo is a tour of Weir as its users see it: over HTTP and NATS, against
// an upstream of its own that counts its requests.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"weir/client"
	"weir/schemas"
)

// Weir is a running gateway, as the tour needs it.
type Weir struct {
	URL        string // of its HTTP surfaces
	Durability schemas.Durability
	// Evidence follows the evidence of one entry as a NATS client of its own,
	// connected over the network, until ctx ends.
	Evidence func(ctx context.Context, entry string, each func(schemas.Evidence)) error
}

// Start makes a gateway whose policy has the given entry, and returns how to
// stop it.
type Start func(ctx context.Context, entryName, urlPrefix string) (w Weir, stop func() error, err error)

// entry is the allowlist entry of the tour.
const entry = "shop"

// Run takes the tour. An error says which of its claims did not hold.
func Run(ctx context.Context, start Start, out io.Writer) (err error) {
	began := time.Now()
	fmt.Fprintln(out, "Weir: a tour. Everything runs on this machine, in a temporary directory.")

	shop, err := openShop(ctx)
	if err != nil {
		return err
	}
	defer shop.close()
	weir, stop, err := start(ctx, entry, shop.url+"/v1/")
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := stop(); err == nil {
			err = stopErr
		}
	}()
	c, err := client.New(weir.URL, "")
	if err != nil {
		return err
	}
	t := &tour{out: out, shop: shop, weir: weir, client: c, unfollow: func() {}}
	defer func() { t.unfollow() }()
	for _, step := range []func(context.Context) error{t.opening, t.plan, t.repeat, t.execute, t.resume, t.evidence} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nThat was all of it, in %.1f s: accepted, decided, performed once, streamed, proven.\n", time.Since(began).Seconds())
	fmt.Fprintf(out, "Next: `weir serve`, then `weir exec GET http://localhost:…`; the README goes on from here.\n")
	return nil
}

// tour is one run of the demo. Each claim is checked before it is printed; the first that does not hold ends
// the run.
type tour struct {
	out    io.Writer
	step   int
	shop   *shop
	weir   Weir
	client *client.Client

	planID    string
	planBody  string
	planReply []byte
	records   chan schemas.Evidence
	unfollow  func() // ends the NATS client
}

// opening says what was started, and has the NATS client follow the evidence.
func (t *tour) opening(ctx context.Context) error {
	t.chapter("The gateway")
	t.say("started on %s with an embedded log; durability %q", t.weir.URL, t.weir.Durability)
	t.say("policy: the entry %q lets GET and POST through to %s/v1/, and nothing else", entry, t.shop.url)
	t.records = make(chan schemas.Evidence, 64)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.weir.Evidence(ctx, entry, func(e schemas.Evidence) { t.records <- e }) // its absence is noticed below
	}()
	t.unfollow = func() { cancel(); <-done }
	t.say("a separate NATS client has begun to follow the subject of the evidence of that entry")
	return nil
}

// plan posts three decisions: one allowed, one denied, one that must be retried.
func (t *tour) plan(ctx context.Context) error {
	t.chapter("A plan of three decisions")
	t.planBody = fmt.Sprintf(`{
  "request_id": "tour-plan-1",
  "state:env.snapshot": {"snapshot_id": "tour"},
  "artifact:proposed.plan": {"plan_id": "tour", "decisions": [
    {"effect_ref": "order", "target_state": {"method": "POST", "url": "%[1]s/v1/orders", "allowlist_key": "shop", "body": {"item": "lamp"}}},
    {"effect_ref": "admin", "target_state": {"method": "POST", "url": "%[1]s/admin/users", "allowlist_key": "shop"}},
    {"effect_ref": "stock", "target_state": {"url": "%[1]s/v1/stock", "allowlist_key": "shop", "params": {"item": "lamp"}}}
  ]}
}`, t.shop.url)
	t.show("POST /v1/plans\n%s", t.planBody)
	resp, err := t.post(ctx, "/v1/plans", t.planBody)
	if err != nil {
		return err
	}
	t.planID, t.planReply = resp.action, resp.body
	var r schemas.PlanResult
	if err := json.Unmarshal(resp.body, &r); err != nil {
		return mismatch("the plan's answer", "a report", err)
	}
	refs := r.Report.ArtifactRefs
	switch {
	case resp.status != http.StatusOK || r.Report.Status != "partial":
		return mismatch("the plan's status", "200 partial", fmt.Sprint(resp.status, " ", r.Report.Status))
	case refs["order"].Status != "applied" || t.shop.hits(http.MethodPost, "/v1/orders") != 1:
		return mismatch("orders that arrived", 1, t.shop.hits(http.MethodPost, "/v1/orders"))
	case refs["admin"].Status != "failed" || t.shop.hits(http.MethodPost, "/admin/users") != 0:
		return mismatch("requests past policy", 0, t.shop.hits(http.MethodPost, "/admin/users"))
	case refs["stock"].Status != "applied" || t.shop.hits(http.MethodGet, "/v1/stock") != 2:
		return mismatch("attempts to read the stock", 2, t.shop.hits(http.MethodGet, "/v1/stock"))
	}
	t.claim("order   applied: one POST reached the shop, and the log had it before it left")
	t.claim("admin   denied: %s; nothing was sent", *refs["admin"].Error)
	t.claim("stock   applied at the second attempt: the shop had dropped the first connection, and a GET may be repeated")
	t.claim("report  %q, execution hash %.16s…", r.Report.Status, r.Report.ExecutionHash)
	return nil
}

// repeat posts the same plan again: nothing happens twice.
func (t *tour) repeat(ctx context.Context) error {
	t.chapter("The same plan again")
	resp, err := t.post(ctx, "/v1/plans", t.planBody)
	if err != nil {
		return err
	}
	if !bytes.Equal(resp.body, t.planReply) {
		return mismatch("the repeated report", string(t.planReply), string(resp.body))
	}
	if n := t.shop.hits(http.MethodPost, "/v1/orders"); n != 1 {
		return mismatch("orders after the repeat", 1, n)
	}
	t.claim("the same report, byte for byte, and the shop still has one order")
	return nil
}

// execute makes one call whose answer must fit a schema.
func (t *tour) execute(ctx context.Context) error {
	t.chapter("One call, held to a schema")
	call := func(schema string) string {
		return fmt.Sprintf(`{"method": "GET", "url": "%s/v1/price", "allowlist_key": "shop", "response_schema": %s}`, t.shop.url, schema)
	}
	good := call(`{"type": "object", "required": ["cents"], "properties": {"cents": {"type": "integer"}}}`)
	t.show("POST /v1/execute\n%s", good)
	resp, err := t.post(ctx, "/v1/execute", good)
	if err != nil {
		return err
	}
	if resp.status != http.StatusOK || !strings.Contains(string(resp.body), `"cents":1999`) {
		return mismatch("the execute's answer", 200, fmt.Sprint(resp.status, " ", string(resp.body)))
	}
	t.claim("answered 200, and the body fits: %s", gjson.GetBytes(resp.body, "body").Raw)
	resp, err = t.post(ctx, "/v1/execute", call(`{"type": "object", "required": ["currency"]}`))
	if err != nil {
		return err
	}
	if resp.status != http.StatusUnprocessableEntity || !strings.Contains(string(resp.body), "SchemaValidationFailed") {
		return mismatch("the answer that does not fit", "422 SchemaValidationFailed", fmt.Sprint(resp.status, " ", string(resp.body)))
	}
	t.claim("with another schema the same answer is refused: SchemaValidationFailed, though the shop said 200")
	return nil
}

// evidence waits for what the NATS client received.
func (t *tour) evidence(ctx context.Context) error {
	t.chapter("The proof")
	// One record for the order, two attempts at the stock, and one for each of the two prices.
	const want = 5
	seen := map[string]bool{}
	timeout := time.NewTimer(5 * time.Second)
	defer timeout.Stop()
	for len(seen) < want {
		select {
		case e := <-t.records:
			if seen[e.ID] {
				return mismatch("evidence records with one id", 1, 2)
			}
			if e.Kind == schemas.EvidenceDecision {
				continue // the denial, told apart below
			}
			seen[e.ID] = true
			t.show("%s  %-22s entry=%s action=%s", e.Time.Format("15:04:05.000"), e.Kind, e.Entry, e.ActionID)
		case <-timeout.C:
			return mismatch("evidence records over NATS", want, len(seen))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.claim("the NATS client received the evidence of every call, each record once")
	var page schemas.Page[schemas.Evidence]
	if err := t.client.Call(ctx, http.MethodGet, "/v1/evidence?kind=policy.decision&action_id="+t.planID, nil, nil, &page); err != nil {
		return err
	}
	if len(page.Items) != 1 {
		return mismatch("denials on record", 1, len(page.Items))
	}
	t.claim("and the denial is on record: %s", gjson.GetBytes(page.Items[0].Payload, "code").Raw)
	return nil
}

// chapter begins a step of the tour.
func (t *tour) chapter(title string) {
	t.step++
	fmt.Fprintf(t.out, "\n%d. %s\n", t.step, title)
}

// say explains.
func (t *tour) say(format string, args ...any) {
	fmt.Fprintf(t.out, "   %s\n", fmt.Sprintf(format, args...))
}

// show prints something as it is: a request, a line of a stream.
func (t *tour) show(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(t.out, "     %s\n", line)
	}
}

// claim states what has just been checked.
func (t *tour) claim(format string, args ...any) {
	fmt.Fprintf(t.out, "   ✓ %s\n", fmt.Sprintf(format, args...))
}

// mismatch is a claim that does not hold.
func mismatch(what string, want, got any) error {
	return fmt.Errorf("the tour found something that is not as it should be: %s: want %v, got %v", what, want, got)
}
