package index

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// spread counts latencies by how long they are: class c holds those of about
// grow^c microseconds, so that what is read back is right to about five in a hundred.
type spread map[int]uint64

// grow is the ratio of one class to the one before.
const grow = 1.1

// classOf is the class of a latency. What is below a microsecond counts as one.
func classOf(d time.Duration) int {
	us := float64(max(d, time.Microsecond)) / float64(time.Microsecond)
	return int(math.Round(math.Log(us) / math.Log(grow)))
}

// add counts those of another spread too.
func (s spread) add(o spread) {
	for c, n := range o {
		s[c] += n
	}
}

// quantile is the latency, in milliseconds, that a share q of all stay below; nil of none.
func (s spread) quantile(q float64) *float64 {
	var all uint64
	classes := make([]int, 0, len(s))
	for c, n := range s {
		all += n
		classes = append(classes, c)
	}
	if all == 0 {
		return nil
	}
	slices.Sort(classes)
	rank := max(uint64(math.Ceil(q*float64(all))), 1)
	for _, c := range classes {
		if rank <= s[c] {
			ms := round(math.Pow(grow, float64(c))/1000, 3)
			return &ms
		}
		rank -= s[c]
	}
	return nil
}

// round keeps so many digits of a number.
func round(v float64, digits int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// pack is a spread as it is stored: pairs of a class and its count.
func (s spread) pack() []byte {
	classes := make([]int, 0, len(s))
	for c := range s {
		classes = append(classes, c)
	}
	slices.Sort(classes)
	var b []byte
	for _, c := range classes {
		b = binary.AppendUvarint(b, uint64(c)) //nolint:gosec // no class is below 0
		b = binary.AppendUvarint(b, s[c])
	}
	return b
}

// unpack adds what pack wrote. What follows bytes that it did not write is left out.
func (s spread) unpack(b []byte) {
	for len(b) > 0 {
		c, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		count, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return
		}
		s[int(c)] += count //nolint:gosec // a class is small
		b = b[n+m:]
	}
}
