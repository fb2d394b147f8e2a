package destination

import (
	"encoding/json"
	"time"

	"weir/schemas"
)

const healthVersion = 1

// health is what is known of a destination: the value of its key. Times are milliseconds
// of Unix time.
type health struct {
	V           int    `json:"v"`
	Entry       string `json:"entry"`
	Destination string `json:"destination"`
	// Asked is until when it asked to be left alone.
	Asked int64 `json:"asked,omitempty"`
	// Failures are those in a row that workers told of.
	Failures int `json:"failures,omitempty"`
	// Open is until when it is left alone because it failed; 0: it is not. Behind it one
	// call at a time is let through, to see.
	Open int64 `json:"open,omitempty"`
	// Prober is the worker that sees, and ProbeEnds when it is given up.
	Prober    string `json:"prober,omitempty"`
	ProbeEnds int64  `json:"probe_ends,omitempty"`
}

// condition is how a destination may be called.
type condition int

const (
	usual  condition = iota
	asked            // not before a time, as it asked
	open             // not before a time, as it failed
	trying           // not before another's call has shown something
	due              // by whoever sees to it first
)

// at is the condition at one time, and when to look again.
func (h *health) at(now time.Time) (condition, time.Time) {
	ms := now.UnixMilli()
	switch {
	case h.Asked > ms:
		return asked, time.UnixMilli(h.Asked)
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

// ask leaves the destination alone until a time. It reports whether that is news.
func (h *health) ask(until time.Time) bool {
	if h.Asked >= until.UnixMilli() {
		return false
	}
	h.Asked = until.UnixMilli()
	return true
}

// fail counts failures in a row. The probe's is one too many, and so is the last of
// limit; those that began before the destination was given up say nothing new.
func (h *health) fail(n int, probe bool, now time.Time, limit int, quarantine time.Duration) bool {
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
	if c, _ := h.at(now); c != due {
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
	c, until := h.at(now)
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

func decodeHealth(data []byte) (health, bool) {
	var h health
	err := json.Unmarshal(data, &h)
	return h, err == nil && h.V == healthVersion
}
