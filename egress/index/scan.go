package index

import (
	"context"
	"math"
	"strconv"
	"strings"

	"weir/egress/stream"
	"weir/schemas"
)

// step is how many records one read asks for, and the smallest window: a
// window of that many sequences cannot hold more.
const step = 128

// widest bounds a window, so that a sparse tenant's log is crossed in few
// reads and no read looks for ever.
const widest = 1 << 22

// scan walks one partition backwards. The log can only be read forwards, so it
// reads windows, each before the last one.
type scan struct {
	stream, filter string
	first          uint64 // the oldest record there is
	before         uint64 // everything from here on has been given, or lies in found
	window         uint64
	found          []schemas.Record // oldest first: the next to give is the last
}

// fill reads until something is found or the reads are used up. ready is false
// in the latter case alone.
func (s *scan) fill(ctx context.Context, log WalkLog, reads *int) (ready bool, err error) {
	if s.window == 0 {
		s.window = step
	}
	for len(s.found) == 0 && s.before > s.first {
		if *reads <= 0 {
			return false, nil
		}
		*reads--
		low := s.first
		if s.before-s.first > s.window {
			low = s.before - s.window
		}
		records, err := log.Range(ctx, s.stream, s.filter, low, step)
		if err != nil {
			return false, err
		}
		full := len(records) == step && records[step-1].Seq+1 < s.before
		if full && s.before-low > step {
			s.window = step // more than a read brings: what is newest was left out
			continue
		}
		for len(records) > 0 && records[len(records)-1].Seq >= s.before {
			records = records[:len(records)-1]
		}
		s.found, s.before = records, low
		if len(records) < step/4 {
			s.window = min(s.window*8, widest)
		}
	}
	return true, nil
}

// pop takes the newest record that was found.
func (s *scan) pop() schemas.Record {
	end := len(s.found) - 1
	rec := s.found[end]
	s.found = s.found[:end]
	return rec
}

// position is the bound below which the next page continues.
func (s *scan) position() uint64 {
	if n := len(s.found); n > 0 {
		return s.found[n-1].Seq + 1
	}
	return s.before
}

// newest picks the partition whose next action is the newest of all; -1 where
// none is left, or a partition could not be read far enough to tell.
func newest(ctx context.Context, log WalkLog, scans []*scan, reads *int) (int, error) {
	best := -1
	for i, s := range scans {
		ready, err := s.fill(ctx, log, reads)
		if err != nil || !ready {
			return -1, err
		}
		if n := len(s.found); n > 0 && (best < 0 || s.found[n-1].Time.After(scans[best].found[len(scans[best].found)-1].Time)) {
			best = i
		}
	}
	return best, nil
}

// cursorOf is where the next page continues in every partition; empty where
// nothing is left.
func cursorOf(scans []*scan) string {
	parts, left := make([]string, len(scans)), false
	for i, s := range scans {
		parts[i] = strconv.FormatUint(s.position(), 36)
		left = left || s.position() > s.first
	}
	if !left {
		return ""
	}
	return strings.Join(parts, "-")
}

func parseCursor(text string, partitions int) ([]uint64, error) {
	bad := stream.Invalid("the parameter cursor must be the next of an earlier page")
	if len(text) > 14*partitions {
		return nil, bad
	}
	parts := strings.Split(text, "-")
	if len(parts) != partitions {
		return nil, bad
	}
	out := make([]uint64, partitions)
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 36, 64)
		if err != nil || n > math.MaxInt64 || p != strconv.FormatUint(n, 36) {
			return nil, bad
		}
		out[i] = n
	}
	return out, nil
}
