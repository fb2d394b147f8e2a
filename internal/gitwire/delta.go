package gitwire

import "encoding/binary"

// patch appends to out what a delta makes of its base; not ok: it is none of that base's, or
// makes more than a commit may have.
func patch(out, base, delta []byte) (made []byte, ok bool) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return out, false
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 || size > maxCommit {
		return out, false
	}
	delta = delta[n:]
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		var piece []byte
		switch {
		case op&0x80 != 0:
			var at, length int
			if at, length, delta, ok = span(op, delta); !ok || at > len(base) || length > len(base)-at {
				return out, false
			}
			piece = base[at : at+length]
		case op == 0 || int(op) > len(delta):
			return out, false
		default:
			piece, delta = delta[:op], delta[op:]
		}
		if uint64(len(out)+len(piece)) > size {
			return out, false
		}
		out = append(grown(out, len(piece)), piece...)
	}
	return out, uint64(len(out)) == size
}

// span reads which part of the base a delta's line copies.
func span(op byte, delta []byte) (at, length int, rest []byte, ok bool) {
	for i := range 7 {
		if op&(1<<i) == 0 {
			continue
		}
		if len(delta) == 0 {
			return 0, 0, nil, false
		}
		if i < 4 {
			at |= int(delta[0]) << (8 * i)
		} else {
			length |= int(delta[0]) << (8 * (i - 4))
		}
		delta = delta[1:]
	}
	if length == 0 {
		length = 0x10000
	}
	return at, length, delta, true
}
