// Package rulebook is the traffic rules of every tenant in the hands of a test.
package rulebook

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/schemas"
)

// Book gives the same rules to every tenant, and can exchange them. It is safe for
// concurrent use. The zero Book has none.
type Book struct {
	mu       sync.Mutex
	revision int
	set      *traffic.Set
	replaced chan struct{}
	err      error
}

// InForce is the set in force.
func (b *Book) InForce(string) (*traffic.Set, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.set, b.replaced, b.err
}

// Put puts rules in force in the place of those before, and returns their etag.
func (b *Book) Put(tb testing.TB, rules ...schemas.Rule) string {
	tb.Helper()
	return b.put(tb, schemas.RuleSet{GlobalActive: true, Rules: rules})
}

// Off puts rules in force that have no effect: global_active does not hold.
func (b *Book) Off(tb testing.TB, rules ...schemas.Rule) string {
	tb.Helper()
	return b.put(tb, schemas.RuleSet{Rules: rules})
}

func (b *Book) put(tb testing.TB, doc schemas.RuleSet) string {
	tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision++
	set, err := traffic.Compile(doc, fmt.Sprintf("etag-%d-x", b.revision))
	require.NoError(tb, err)
	b.exchange(set, nil)
	return set.Etag()
}

// Break has the rules be unreadable until the next Put.
func (b *Book) Break(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exchange(nil, err)
}

func (b *Book) exchange(set *traffic.Set, err error) {
	if b.replaced != nil {
		close(b.replaced)
	}
	b.set, b.err, b.replaced = set, err, nil
	if set != nil {
		b.replaced = make(chan struct{})
	}
}

// Rule is an enabled rule for all calls to what a pattern matches.
func Rule(id, kind, pattern string) schemas.Rule {
	return schemas.Rule{
		ID: id, Group: schemas.DefaultGroup, Type: kind, Enabled: true,
		Match: schemas.RuleMatch{URLPattern: pattern, Method: "ANY"},
	}
}

// Redirect sends what a pattern matches somewhere else.
func Redirect(id, pattern, to string) schemas.Rule {
	r := Rule(id, schemas.RuleRedirect, pattern)
	r.Action.ToURL = to
	return r
}

// Mock answers what a pattern matches with a JSON body.
func Mock(id, pattern string, status int, body string) schemas.Rule {
	r := Rule(id, schemas.RuleMock, pattern)
	r.Action.Status = status
	if body != "" {
		r.Action.BodyMode, r.Action.Body = "json", json.RawMessage(body)
	}
	return r
}

// MockText answers what a pattern matches with a text of some media type.
func MockText(id, pattern string, status int, mediaType, body string) schemas.Rule {
	r := Rule(id, schemas.RuleMock, pattern)
	r.Action.Status, r.Action.BodyMode, r.Action.Body = status, "raw", quote(body)
	if mediaType != "" {
		r.Action.Headers = map[string]string{"content-type": mediaType}
	}
	return r
}

// Delay holds what a pattern matches back, in milliseconds.
func Delay(id, pattern string, ms int64) schemas.Rule {
	r := Rule(id, schemas.RuleDelay, pattern)
	r.Action.DelayMS = &ms
	return r
}

// SetHeader sets a header of the requests that a pattern matches.
func SetHeader(id, pattern, name, value string) schemas.Rule {
	r := Rule(id, schemas.RuleHeaders, pattern)
	r.Action.RequestHeaders = []schemas.HeaderChange{{Op: schemas.HeaderSet, Name: name, Value: value}}
	return r
}

// Answers changes the headers of the answers to what a pattern matches.
func Answers(id, pattern string, changes ...schemas.HeaderChange) schemas.Rule {
	r := Rule(id, schemas.RuleHeaders, pattern)
	r.Action.ResponseHeaders = changes
	return r
}

func quote(text string) json.RawMessage {
	doc, err := json.Marshal(text)
	if err != nil { // a string always marshals
		panic(err)
	}
	return doc
}
