package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/schemas"
)

// retriesText says how often a call of a class is repeated, and after what.
func retriesText(class schemas.Class, c *schemas.Contract) string {
	if c.Attempts <= 1 {
		return "none"
	}
	after := "a failure to connect or to send"
	if class.Repeatable() {
		after = "a lost answer or status " + strings.Join(c.RetryOn, ", ")
	}
	text := fmt.Sprintf("up to %d attempts, %s to %s apart, after %s", c.Attempts, c.Base, c.Cap, after)
	if never := neverText(c.NeverRetry); never != "" {
		text += "; never after " + never
	}
	return text
}

// neverText is the answers after which a call is not repeated.
func neverText(n *schemas.EntryNeverRetry) string {
	if n == nil {
		return ""
	}
	var all []string
	for _, status := range n.Status {
		all = append(all, strconv.Itoa(status))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Header)) {
		all = append(all, name+": "+n.Header[name])
	}
	return strings.Join(all, ", ")
}

// keyText is the idempotency key that a call is sent with.
func keyText(c *schemas.Contract) string {
	var text string
	switch c.Key {
	case schemas.KeyCaller:
		text = "the caller's, sent as " + c.KeyHeader
	case schemas.KeyDerived:
		text = "derived by Weir, sent as " + c.KeyHeader
	default:
		return ""
	}
	if c.KeyTTL != "" {
		text += ", valid for " + c.KeyTTL
	}
	if c.RequiresKey {
		text += ", required by the entry"
	}
	return text
}

// deliveryText is the delivery contract and the limits of an entry.
func deliveryText(e schemas.EntryView) string {
	var keys, attempts, on, probe, schema, rate, concurrency string
	if e.UpstreamIdempotencyTTL != "" {
		keys = e.UpstreamIdempotencyTTL
		switch {
		case e.DerivesKey:
			keys += " derived"
		case e.RequiresKey:
			keys += " required"
		}
	}
	if r := e.Retry; r != nil {
		attempts = strconv.Itoa(r.Attempts)
		on = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.On), " ", ", "), "[]")
	}
	if e.Reconcile != nil {
		probe = e.Reconcile.Method
	}
	if e.ResponseSchema != nil {
		schema = e.ResponseSchema.Mode
	}
	if l := e.Limits; l != nil {
		rate = l.Rate
		if l.Concurrency > 0 {
			concurrency = strconv.Itoa(l.Concurrency)
		}
	}
	return labels(": ", "; ", "keys", keys, "attempts", attempts, "retry on", on, "never retry", neverText(e.NeverRetry),
		"probe", probe, "schema", schema, "rate", rate, "concurrency", concurrency)
}
