package destination

import (
	"maps"
	"slices"
	"time"

	"weir/schemas"
)

const (
	healthVersion = 2
	// wordOfOne is how long all leave a destination alone that has asked two tenants to, but only
	// one of them for so long. It begins when the destination asked that one.
	wordOfOne = 30 * time.Second
	// quarantine is how long a breaker stays open before one call probes.
	quarantine = 10 * time.Second
	// longest is the longest Retry-After that holds other calls back.
	longest = 5 * time.Minute
	// mostAsked is how many tenants are remembered that a destination has asked.
	mostAsked = 64
)

// health is what is known of a destination: the value of its key. Times are milliseconds
// of Unix time.
type health struct {
	V           int    `json:"v"`
	Entry       string `json:"entry"`
	Destination string `json:"destination"`
	// Asked is until when it asked each tenant to leave it alone, and AskedAll until when all do:
	// one tenant's requests may have brought it about, and must not hold up another's.
	Asked    map[string]int64 `json:"asked,omitempty"`
	AskedAll int64            `json:"asked_all,omitempty"`
	// Heard is when the tenant was first asked whose wish lasts longest.
	Heard int64 `json:"heard,omitempty"`
	// Failures are those in a row that workers told of.
	Failures int `json:"failures,omitempty"`
	// Open is until when it is left alone because it failed; 0: it is not. Behind it one
	// call at a time is let through, to see.
	Open int64 `json:"open,omitempty"`
	// Prober is the worker that sees, and ProbeEnds when it is given up.
	Prober    string `json:"prober,omitempty"`
	ProbeEnds int64  `json:"probe_ends,omitempty"`
}

// cloneHealth shares the map, which is replaced and never changed.
func cloneHealth(h health) health { return h }

// condition is how a destination may be called.
type condition int

const (
	usual  condition = iota
	asked            // not before a time, as it asked
	open             // not before a time, as it failed
	trying           // not before another's call has shown something
	due              // by whoever sees to it first
)

// at is the condition for a tenant at one time, and when to look again.
func (h *health) at(tenant string, now time.Time) (condition, time.Time) {
	ms := now.UnixMilli()
	switch until := max(h.AskedAll, h.Asked[tenant]); {
	case until > ms:
		return asked, time.UnixMilli(until)
	case h.Open == 0:
		return usual, time.Time{}
	case h.Open > ms:
		return open, time.UnixMilli(h.Open)
	case h.ProbeEnds > ms:
		return trying, time.UnixMilli(h.ProbeEnds)
	default:
		return due, time.Time{}
	}
}

// inForce are the wishes that have not ended, in a map of their own.
func (h *health) inForce(now time.Time) map[string]int64 {
	wishes := make(map[string]int64, len(h.Asked)+1)
	for tenant, until := range h.Asked {
		if until > now.UnixMilli() {
			wishes[tenant] = until
		}
	}
	return wishes
}

// ask has a tenant leave the destination alone until a time. Once two tenants were asked, all leave it
// alone: for as long as two were asked for, and on the word of one until wordOfOne after it was first heard.
// It reports whether that is news.
func (h *health) ask(tenant string, until, now time.Time) bool {
	ms := until.UnixMilli()
	if h.Asked[tenant] >= ms {
		return false
	}
	wishes := h.inForce(now)
	if _, listed := wishes[tenant]; !listed && len(wishes) >= mostAsked {
		return false
	}
	longest := int64(0)
	for _, other := range wishes {
		longest = max(longest, other)
	}
	if longest == 0 || wishes[tenant] < longest && ms > longest { // a tenant that extends the longest wish does not renew it
		h.Heard = now.UnixMilli()
	}
	wishes[tenant] = ms
	h.Asked = wishes
	if times := slices.Sorted(maps.Values(wishes)); len(times) > 1 {
		first, second := times[len(times)-1], times[len(times)-2]
		h.AskedAll = max(h.AskedAll, second, min(first, h.Heard+wordOfOne.Milliseconds()))
	}
	return true
}

// fail counts failures in a row. The probe's is one too many, and so is the last of
// limit; those that began before the destination was given up say nothing new.
func (h *health) fail(n int, probe bool, now time.Time, limit int) bool {
	if h.Open != 0 && !probe {
		return false
	}
	h.Failures = min(h.Failures+n, limit)
	if probe || h.Failures >= limit {
		h.Open, h.Prober, h.ProbeEnds = now.Add(quarantine).UnixMilli(), "", 0
	}
	return true
}

// well ends what failures had brought about.
func (h *health) well() bool {
	if h.Open == 0 && h.Failures == 0 {
		return false
	}
	h.Failures, h.Open, h.Prober, h.ProbeEnds = 0, 0, "", 0
	return true
}

// try has a worker see whether the destination is well again; false: another does.
func (h *health) try(worker string, now, until time.Time) bool {
	if c, _ := h.at("", now); c != due {
		return false
	}
	h.Prober, h.ProbeEnds = worker, until.UnixMilli()
	return true
}

// untried gives back a probe that was not made.
func (h *health) untried(worker string) bool {
	if h.Prober != worker {
		return false
	}
	h.Prober, h.ProbeEnds = "", 0
	return true
}

func (h *health) view(now time.Time) (v schemas.DestinationView, left bool) {
	v = schemas.DestinationView{Entry: h.Entry, Destination: h.Destination, Failures: h.Failures}
	c, until := h.at("", now)
	if c == usual {
		for _, tenant := range slices.Sorted(maps.Keys(h.Asked)) {
			if one, its := h.at(tenant, now); one == asked {
				v.Tenants, until, c = append(v.Tenants, tenant), later(until, its), asked
			}
		}
	}
	switch v.Until = until.UTC(); c {
	case asked:
		v.State = schemas.DestinationAsked
	case open:
		v.State = schemas.DestinationOpen
	case trying, due:
		v.State = schemas.DestinationTrying
	case usual:
		return v, false
	}
	if until.IsZero() {
		v.Until = time.Time{}
	}
	return v, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
