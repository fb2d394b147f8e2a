package gitwire

// The types of a pack's objects.
const (
	typeCommit   = 1
	typeTag      = 4
	typeOfsDelta = 6
	typeRefDelta = 7
)

const (
	maxNumber = 1 << 60 // of every size and offset: what is more is none
	// deltaHead is the most that the two sizes take which a delta begins with.
	deltaHead = 20
)

// object is one of a pack's, as it is read.
type object struct {
	kind  byte
	start int64 // where it begins
	// base is where a delta's base begins, and baseID its id; either by the delta's kind.
	base   int64
	baseID oid
	delta  bool
	size   int64 // unpacked, of a delta the delta itself
	read   int64 // unpacked so far
	told   bool  // what the delta makes
	head   [deltaHead]byte
	n      int // of head
}

// readObject reads what stands before an object's data.
func readObject(s *source) (object, error) {
	start := s.offset
	c, err := s.ReadByte()
	if err != nil {
		return object{}, err
	}
	kind := c >> 4 & 7
	o := object{kind: kind, start: start, size: int64(c & 15), delta: kind == typeOfsDelta || kind == typeRefDelta}
	if !o.delta && (kind < typeCommit || kind > typeTag) {
		return object{}, malformed("an object has a type that there is not")
	}
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = s.ReadByte(); err != nil {
			return object{}, err
		}
		if o.size |= int64(c&0x7f) << min(shift, 60); shift > 53 || o.size >= maxNumber {
			return object{}, tooLarge("the number of an object's bytes")
		}
	}
	switch kind {
	case typeOfsDelta:
		o.base, err = readOffset(s, start)
	case typeRefDelta:
		for i := 0; i < len(o.baseID) && err == nil; i++ {
			o.baseID[i], err = s.ReadByte()
		}
	}
	return o, err
}

// readOffset reads how far before a delta its base stands, which is behind the pack's header,
// and returns where that is.
func readOffset(s *source, start int64) (base int64, err error) {
	c, err := s.ReadByte()
	if err != nil {
		return 0, err
	}
	n := int64(c & 0x7f)
	for c&0x80 != 0 {
		if c, err = s.ReadByte(); err != nil {
			return 0, err
		}
		if n = (n+1)<<7 | int64(c&0x7f); n >= maxNumber>>7 {
			break
		}
	}
	if n < 1 || n > start-packHeader {
		return 0, malformed("a delta's base is not before it")
	}
	return start - n, nil
}

// take counts some of an object's data, and looks for what a delta makes: told says
// that this is size, once. whole: there are no more.
func (o *object) take(data []byte, whole bool) (size int64, told bool, err error) {
	o.read += int64(len(data))
	if o.read > o.size || whole && o.read < o.size {
		return 0, false, malformed("an object is not as large as it says")
	}
	if !o.delta || o.told {
		return 0, false, nil
	}
	o.n += copy(o.head[o.n:], data)
	_, n, err := number(o.head[:o.n])
	if err == nil && n > 0 {
		size, n, err = number(o.head[n:o.n])
	}
	switch {
	case err != nil:
		return 0, false, err
	case n > 0:
		o.told = true
		return size, true, nil
	case whole:
		return 0, false, malformed("a delta ends in its first line")
	}
	return 0, false, nil
}

// number reads a size of a delta. n is how many bytes it has, and 0 if it has more
// than b.
func number(b []byte) (v int64, n int, err error) {
	for i, c := range b {
		if i == deltaHead/2 || i == deltaHead/2-1 && c > 0 {
			return 0, 0, tooLarge("a size in a delta")
		}
		if v |= int64(c&0x7f) << (7 * i); c&0x80 == 0 {
			return v, i + 1, nil
		}
	}
	return 0, 0, nil
}
