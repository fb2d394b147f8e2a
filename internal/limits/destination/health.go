package destination

import (
	"maps"
	"slices"
	"time"

	"weir/schemas"
)

const (
	healthVersion = 2
	// oneTenantMax bounds how long all tenants wait because of a single tenant's longer wait. It begins
	// when the destination asked that tenant.
	oneTenantMax = 30 * time.Second
	// quarantine is how long a breaker stays open before one call probes.
	quarantine = 10 * time.Second
	// longest is the longest Retry-After that holds other calls back.
	longest = 5 * time.Minute
	// mostAsked is how many tenants are remembered that a destination has asked.
	mostAsked = 64
)

// health is what is known of a destination: the value of its key. Times are milliseconds of Unix
// time.
type health struct {
	V           int    `json:"v"`
	Entry       string `json:"entry"`
	Destination string `json:"destination"`
	// Asked is until when it asked each tenant not to call, and AskedAll until when no tenant
	// calls: one tenant's requests may have caused the answer, and must not hold up another's.
	Asked    map[string]int64 `json:"asked,omitempty"`
	AskedAll int64            `json:"asked_all,omitempty"`
	// Heard is when the tenant with the longest wait was first asked.
	Heard int64 `json:"heard,omitempty"`
	// Failures are those in a row that workers have shared.
	Failures int `json:"failures,omitempty"`
	// Open is until when it is not called because it failed; 0: it is called. After that one call
	// at a time probes.
	Open int64 `json:"open,omitempty"`
	// Prober is the worker that probes, and ProbeEnds when its probe has surely ended.
	Prober    string `json:"prober,omitempty"`
	ProbeEnds int64  `json:"probe_ends,omitempty"`
}

// How a destination may be called; as schemas.DestinationView has it, if that shows it.
const (
	callable = ""
	asked    = schemas.DestinationAsked  // not before a time, as it asked
	open     = schemas.DestinationOpen   // not before a time, as it failed
	trying   = schemas.DestinationTrying // not before the probe of another call has ended
	due      = "due"                     // by the first call, which probes
)

// at is the condition for a tenant at one time, and when to look again.
func (h *health) at(tenant string, now time.Time) (condition string, until time.Time) {
	ms := now.UnixMilli()
	switch wait := max(h.AskedAll, h.Asked[tenant]); {
	case wait > ms:
		return asked, time.UnixMilli(wait)
	case h.Open == 0:
		return callable, time.Time{}
	case h.Open > ms:
		return open, time.UnixMilli(h.Open)
	case h.ProbeEnds > ms:
		return trying, time.UnixMilli(h.ProbeEnds)
	default:
		return due, time.Time{}
	}
}

// waits are the ends of the waits that are not over, by tenant, in a map of their own.
func (h *health) waits(now time.Time) map[string]int64 {
	waits := make(map[string]int64, len(h.Asked)+1)
	for tenant, until := range h.Asked {
		if until > now.UnixMilli() {
			waits[tenant] = until
		}
	}
	return waits
}

// ask has a tenant not call until a time. Once two tenants were asked, no tenant calls: until the
// shorter of the two longest waits is over, and for up to oneTenantMax of the longer one. It reports
// whether that changes anything.
func (h *health) ask(tenant string, until, now time.Time) bool {
	ms := until.UnixMilli()
	if h.Asked[tenant] >= ms {
		return false
	}
	waits := h.waits(now)
	if _, listed := waits[tenant]; !listed && len(waits) >= mostAsked {
		return false
	}
	most := slices.Max(append(slices.Collect(maps.Values(waits)), 0))
	if most == 0 || waits[tenant] < most && ms > most { // a tenant that extends the longest wait does not renew it
		h.Heard = now.UnixMilli()
	}
	waits[tenant] = ms
	h.Asked = waits
	if times := slices.Sorted(maps.Values(waits)); len(times) > 1 {
		first, second := times[len(times)-1], times[len(times)-2]
		h.AskedAll = max(h.AskedAll, second, min(first, h.Heard+oneTenantMax.Milliseconds()))
	}
	return true
}

// fail counts failures in a row. A probe that fails opens the breaker again, and so does the last of
// limit. Failures of calls that began before it opened change nothing.
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

// succeed closes the breaker and ends a row of failures.
func (h *health) succeed() bool {
	if h.Open == 0 && h.Failures == 0 {
		return false
	}
	h.Failures, h.Open, h.Prober, h.ProbeEnds = 0, 0, "", 0
	return true
}

// startProbe has a worker probe; false: it is not time, or another does.
func (h *health) startProbe(worker string, now, until time.Time) bool {
	if c, _ := h.at("", now); c != due {
		return false
	}
	h.Prober, h.ProbeEnds = worker, until.UnixMilli()
	return true
}

// dropProbe gives back a probe that was not made.
func (h *health) dropProbe(worker string) bool {
	if h.Prober != worker {
		return false
	}
	h.Prober, h.ProbeEnds = "", 0
	return true
}

// view is the destination as it is shown; left is false if it is called as usual.
func (h *health) view(now time.Time) (v schemas.DestinationView, left bool) {
	v = schemas.DestinationView{Entry: h.Entry, Destination: h.Destination, Failures: h.Failures}
	c, until := h.at("", now)
	if waits := h.waits(now); c == callable && len(waits) > 0 {
		c, v.Tenants = asked, slices.Sorted(maps.Keys(waits))
		until = time.UnixMilli(slices.Max(slices.Collect(maps.Values(waits))))
	}
	if v.State, v.Until = c, until.UTC(); c == due {
		v.State = trying
	}
	return v, c != callable
}
