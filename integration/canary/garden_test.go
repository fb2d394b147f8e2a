//go:build e2e

package canary_test

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
)

// canary is a text that stands for content, in one place of the input.
type canary struct {
	class string
	text  string
	// secret has no place but the wire to the upstream: its owner does not get
	// to see it either.
	secret bool
}

// garden knows every canary of a run. It is safe for concurrent use.
type garden struct {
	mu  sync.Mutex
	all []canary
}

// The beginnings of canaries. Eight characters of one are enough to be found,
// so that those of secrets differ.
const (
	contentMark = "AGWCANARY-"
	secretMark  = "KEYCANARY-"
)

// plant makes a canary for a place in the input.
func (g *garden) plant(class string) string {
	return g.add(canary{class: class, text: contentMark + tidy(class) + "-" + random(8)})
}

// secret is the one of its class that only the upstream may get.
func (g *garden) secret(class string) string {
	for _, c := range g.list() {
		if c.class == class && c.secret {
			return c.text
		}
	}
	return g.add(canary{class: class, text: secretMark + tidy(class) + "-" + random(8), secret: true})
}

// known has an existing text looked for as a secret.
func (g *garden) known(class, text string) { g.add(canary{class: class, text: text, secret: true}) }

func (g *garden) add(c canary) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, c)
	return c.text
}

// shapes are canaries that look like what they stand for: whoever leaks only
// what looks like an id or a date leaks these.
func (g *garden) shapes() map[string]string {
	shapes := map[string]string{
		"ssn": fmt.Sprintf("900-%02d-%04d", number(90)+10, number(9000)+1000),
		"mrn": fmt.Sprintf("MRN-%d-%d", number(9e8)+1e8, number(9e8)+1e8),
		// No time that Weir or a server writes ends like it.
		"birth": fmt.Sprintf("1%03d-%02d-%02dT%02d:%02d:%02d+13:%02d", number(800)+100, number(12)+1, number(28)+1, number(24), number(60), number(60), number(60)),
		"mail":  "p" + random(6) + "@example." + random(4),
	}
	for class, text := range shapes {
		g.add(canary{class: "shape-" + class, text: text})
	}
	return shapes
}

func (g *garden) list() []canary {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]canary(nil), g.all...)
}

// text is the canary of a class that stands alone in it.
func (g *garden) text(tb testing.TB, class string) string {
	tb.Helper()
	for _, c := range g.list() {
		if c.class == class {
			return c.text
		}
	}
	tb.Fatalf("no canary of the class %s was planted", class)
	return ""
}

// tidy leaves of a class what may stand in an id, a header name and a host.
func tidy(class string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, class), "-")
}

// random is two letters for each byte, none of which stands in hex: there are so
// many hashes in evidence that one of them would hold the end of some canary.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	var s strings.Builder
	for _, c := range b {
		s.WriteByte('g' + c>>4)
		s.WriteByte('g' + c&15)
	}
	return s.String()
}

func number(below int64) int64 {
	n, err := rand.Int(rand.Reader, big.NewInt(below))
	if err != nil {
		panic(err)
	}
	return n.Int64()
}
