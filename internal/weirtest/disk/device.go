// Package disk is a block device that can be cut off from its power, be slow, and fail. It
// lives in the memory of the test; the kernel sees it as a loop device on a file of FUSE,
// with an ordinary ext4 on it. Like a real disk it has a write cache: what was written and
// not flushed may be lost, and a cut decides how much of it.
package disk

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// sector is what a device writes whole or not at all.
	sector = 512
	page   = 4096
)

var (
	// ErrOff is what a device without power answers.
	ErrOff = errors.New("the device has no power")
	// ErrBroken is what a device answers that is told to fail.
	ErrBroken = errors.New("the device cannot")
)

// Faults is what a device does wrong. The zero value is a good one.
type Faults struct {
	// SlowFlush is how long each flush takes longer.
	SlowFlush time.Duration
	// FailWrites and FailFlushes answer every write and every flush with an I/O error.
	FailWrites, FailFlushes bool
}

// Device is a disk in memory. It is safe for concurrent use.
type Device struct {
	size int64

	mu      sync.Mutex
	cells   map[int64][]byte // what survives a cut, by page
	seen    map[int64][]byte // what a reader sees
	cache   []write          // what was written since the last flush, in order
	faults  Faults
	off     bool
	trip    int // so many writes before the power fails; 0: it does not
	tripped chan struct{}
}

// write is one sector of one write.
type write struct {
	at   int64
	data [sector]byte
}

// New is an empty device of so many bytes, a multiple of 4096.
func New(size int64) *Device {
	return &Device{size: size, cells: map[int64][]byte{}, seen: map[int64][]byte{}}
}

// Load is a device with the content of a file, which it keeps over any cut.
func Load(path string) (*Device, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := New(int64(len(data)))
	empty := make([]byte, page)
	for at := int64(0); at < d.size; at += page {
		if p := data[at : at+page]; !slices.Equal(p, empty) {
			d.cells[at], d.seen[at] = slices.Clone(p), slices.Clone(p)
		}
	}
	return d, nil
}

// Size is how many bytes it holds.
func (d *Device) Size() int64 { return d.size }

// Fail sets what the device does wrong from now on.
func (d *Device) Fail(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// Trip has the power fail after so many writes, in the middle of whatever they are part
// of. The channel is closed then; Cut tells what is left.
func (d *Device) Trip(writes int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trip, d.tripped = writes, make(chan struct{})
	return d.tripped
}

// Read fills p from an offset.
func (d *Device) Read(p []byte, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrOff
	}
	for n := 0; n < len(p); {
		base := (at + int64(n)) / page * page
		from := at + int64(n) - base
		if cell := d.seen[base]; cell != nil {
			n += copy(p[n:], cell[from:])
			continue
		}
		end := min(len(p), n+int(page-from))
		clear(p[n:end])
		n = end
	}
	return nil
}

// Write takes whole sectors into the cache.
func (d *Device) Write(p []byte, at int64) error {
	if at%sector != 0 || len(p)%sector != 0 {
		return errors.New("a device is written by whole sectors")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.off:
		return ErrOff
	case d.faults.FailWrites:
		return ErrBroken
	}
	for n := 0; n < len(p); n += sector {
		w := write{at: at + int64(n), data: [sector]byte(p[n : n+sector])}
		d.cache = append(d.cache, w)
		w.apply(d.seen)
	}
	if d.trip > 0 {
		if d.trip--; d.trip == 0 {
			d.off = true
			close(d.tripped)
		}
	}
	return nil
}

func (w *write) apply(to map[int64][]byte) {
	base := w.at / page * page
	if to[base] == nil {
		to[base] = make([]byte, page)
	}
	copy(to[base][w.at-base:], w.data[:])
}

// Flush makes everything that was written before it survive a cut.
func (d *Device) Flush() error {
	d.mu.Lock()
	slow := d.faults.SlowFlush
	d.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.off:
		return ErrOff
	case d.faults.FailFlushes:
		return ErrBroken
	}
	for i := range d.cache {
		d.cache[i].apply(d.cells)
	}
	d.cache = d.cache[:0]
	return nil
}

// Cut takes the power away: from now on every request fails. It returns the device as it
// is when the power comes back, and how many sectors it forgot. Of what was not flushed it
// keeps each sector with that probability, as a device may that writes its cache back in
// any order; an older write to a sector may be kept where a newer one is not.
func (d *Device) Cut(random *rand.Rand, keep float64) (after *Device, forgot int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	for i := range d.cache {
		if random.Float64() < keep {
			d.cache[i].apply(d.cells)
		} else {
			forgot++
		}
	}
	after = New(d.size)
	after.cells = d.cells
	after.seen = maps.Clone(d.cells)
	for at, cell := range after.seen {
		after.seen[at] = slices.Clone(cell)
	}
	d.cells, d.seen, d.cache = nil, nil, nil
	return after, forgot
}
