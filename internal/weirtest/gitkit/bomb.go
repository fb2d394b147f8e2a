package gitkit

import "encoding/binary"

// Delta are the lines of a delta that says it makes so many bytes of a base of so many.
func Delta(base, result int64, lines ...[]byte) []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(result)) //nolint:gosec // sizes
	for _, l := range lines {
		b = append(b, l...)
	}
	return b
}

// Copy is the line of a delta that takes bytes of the base: up to 16 MiB less one.
func Copy(offset, size int64) []byte {
	b := []byte{0x80}
	for i := range 4 {
		if c := byte(offset >> (8 * i) & 0xff); c != 0 {
			b[0] |= 1 << i
			b = append(b, c)
		}
	}
	for i := range 3 {
		if c := byte(size >> (8 * i) & 0xff); c != 0 {
			b[0] |= 0x10 << i
			b = append(b, c)
		}
	}
	return b
}

// Insert is the line of a delta that brings bytes of its own: up to 127.
func Insert(data string) []byte { return append([]byte{byte(len(data) & 0x7f)}, data...) }

const (
	seed    = 1 << 20
	maxCopy = 1<<24 - 1
)

// DeltaBomb is a right pack of a few KiB whose last object has so many bytes when it is
// unpacked: a megabyte of zeros, a delta of that with up to a gigabyte, and one of that.
func DeltaBomb(size int64) []byte {
	middle := min(size/2, 1<<30)
	return Pack(
		Object{Type: Blob, Data: make([]byte, seed)},
		Object{Type: OfsDelta, Base: 0, Data: grow(seed, middle)},
		Object{Type: OfsDelta, Base: 1, Data: grow(middle, size)},
	)
}

// DeltaFan is a right pack of many objects of up to a few hundred MiB each, none of
// which is large by itself: a blob of zeros, and n deltas of it with the given size.
func DeltaFan(n int, size int64) []byte {
	objects := []Object{{Type: Blob, Data: make([]byte, seed)}}
	for i := range n {
		// Every one ends otherwise, so that none of them is another.
		mark := string([]byte{byte(i & 0xff), byte(i >> 8 & 0xff), byte(i >> 16 & 0xff), 1})
		lines := append(copies(seed, size-int64(len(mark))), Insert(mark))
		objects = append(objects, Object{Type: OfsDelta, Data: Delta(seed, size, lines...)})
	}
	return Pack(objects...)
}

// grow is a delta that makes size bytes of the beginning of a base.
func grow(base, size int64) []byte { return Delta(base, size, copies(base, size)...) }

func copies(base, size int64) [][]byte {
	var lines [][]byte
	for size > 0 {
		n := min(size, base, maxCopy)
		lines = append(lines, Copy(0, n))
		size -= n
	}
	return lines
}
