//go:build e2e

package canary_test

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// sink is what came out in one place.
type sink struct {
	name string
	data []byte
	// owner says that the one it was shown to may see all but secrets.
	owner bool
}

// leak is a canary where none may be.
type leak struct{ sink, class, form string }

func (l leak) String() string { return l.sink + ": " + l.class + " as " + l.form }

// nothingError is a sink that brought no data: nothing was looked at, and nothing
// is proved.
type nothingError struct{ sink string }

func (e nothingError) Error() string { return "the sink " + e.sink + " brought no data" }

// scan looks for every canary in every sink, in every form that it can have
// taken. Each leak is told once.
func scan(canaries []canary, sinks []sink) ([]leak, error) {
	all, secrets := newSeeker(canaries, false), newSeeker(canaries, true)
	found := map[leak]bool{}
	for _, s := range sinks {
		if len(bytes.TrimSpace(s.data)) == 0 {
			return nil, nothingError{s.name}
		}
		k := all
		if s.owner {
			k = secrets
		}
		for _, v := range views(s.data, 2) {
			for _, n := range k.in(v) {
				found[leak{s.name, n.class, n.form}] = true
			}
		}
	}
	leaks := make([]leak, 0, len(found))
	for l := range found {
		leaks = append(leaks, l)
	}
	sort.Slice(leaks, func(i, j int) bool { return leaks[i].String() < leaks[j].String() })
	return leaks, nil
}

// needle is one form of a canary. A folded one is compared without case.
type needle struct {
	class, form, text string
	folded            bool
}

// shortest is the length of a needle at least: that of a canary's beginning.
const shortest = 8

// forms are what a canary looks like once somebody has encoded, cut or hashed
// it. What a text looks like once it was escaped is undone by views instead.
func forms(c canary) []needle {
	var all []needle
	fold := func(form, text string) {
		all = append(all, needle{c.class, form, strings.ToLower(text), true})
	}
	exact := func(form, text string) {
		if len(text) >= shortest {
			all = append(all, needle{c.class, form, text, false})
		}
	}
	fold("text", c.text)
	// Canaries of one sort begin alike: whose it is, a beginning does not tell.
	all = append(all, needle{"some canary", "its beginning", strings.ToLower(c.text[:shortest]), true})
	fold("its end", c.text[len(c.text)-shortest:])
	fold("hex", hex.EncodeToString([]byte(c.text)))
	for _, text := range []string{c.text, strings.ToLower(c.text)} {
		for shift := range 3 {
			exact("base64", aligned(base64.StdEncoding, text, shift))
			exact("base64url", aligned(base64.URLEncoding, text, shift))
		}
	}
	for name, sum := range map[string][]byte{
		"md5": digest(md5.Sum([]byte(c.text))), "sha1": digest20(sha1.Sum([]byte(c.text))), "sha256": digest32(sha256.Sum256([]byte(c.text))),
		// What a JSON document that is nothing but the text hashes to.
		"sha256 of its JSON": digest32(sha256.Sum256([]byte(`"` + c.text + `"`))),
	} {
		fold(name, hex.EncodeToString(sum))
		exact(name+" in base64", base64.RawStdEncoding.EncodeToString(sum))
		exact(name+" in base64url", base64.RawURLEncoding.EncodeToString(sum))
		exact(name+" in bytes", string(sum))
	}
	return all
}

func digest(b [16]byte) []byte   { return b[:] }
func digest20(b [20]byte) []byte { return b[:] }
func digest32(b [32]byte) []byte { return b[:] }

// aligned is the part of a text's base64 that does not depend on what stands
// before it, shift bytes off a group of three, and behind it.
func aligned(e *base64.Encoding, text string, shift int) string {
	coded := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", shift) + text))
	skip := []int{0, 2, 3}[shift]
	whole := (shift + len(text)) * 8 / 6
	return coded[skip:whole]
}

// seeker finds needles by their first eight bytes, so that the time it takes
// does not grow with their number.
type seeker struct {
	folded, exact map[[shortest]byte][]needle
}

func newSeeker(canaries []canary, secretsOnly bool) *seeker {
	k := &seeker{map[[shortest]byte][]needle{}, map[[shortest]byte][]needle{}}
	seen := map[string]bool{}
	for _, c := range canaries {
		if secretsOnly && !c.secret {
			continue
		}
		for _, n := range forms(c) {
			if seen[n.text] { // the beginnings are one
				continue
			}
			seen[n.text] = true
			in := k.exact
			if n.folded {
				in = k.folded
			}
			head := [shortest]byte([]byte(n.text))
			in[head] = append(in[head], n)
		}
	}
	return k
}

func (k *seeker) in(data []byte) []needle {
	return append(find(k.exact, data), find(k.folded, bytes.ToLower(data))...)
}

func find(needles map[[shortest]byte][]needle, data []byte) (found []needle) {
	var first [1 << 16]bool
	for head := range needles {
		first[int(head[0])<<8|int(head[1])] = true
	}
	for i := 0; i+shortest <= len(data); i++ {
		if !first[int(data[i])<<8|int(data[i+1])] {
			continue
		}
		for _, n := range needles[[shortest]byte(data[i:])] {
			if bytes.HasPrefix(data[i:], []byte(n.text)) {
				found = append(found, n)
			}
		}
	}
	return found
}

// views are data as it is, and with its escapes undone one after the other, and
// whatever is compressed in it.
func views(data []byte, depth int) [][]byte {
	all := [][]byte{data, squeezed(data)}
	add := func(undo func([]byte) []byte) {
		if next := undo(data); !bytes.Equal(next, data) {
			data = next
			all = append(all, next)
		}
	}
	add(unescapeJSON)
	add(unescapeJSON) // JSON inside a string of JSON
	add(unescapePercent)
	add(unescapePercent)
	add(unescapeJSON) // JSON inside a URL
	add(func(b []byte) []byte { return []byte(html.UnescapeString(string(b))) })
	add(squeezed)
	if depth > 0 {
		for _, inner := range inflated(all[0]) {
			all = append(all, views(inner, depth-1)...)
		}
	}
	return all
}

// squeezed leaves out what breaks lines, and the zeros of UTF-16.
func squeezed(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n', 0, '\ufeff', '\u00ad', '\u200b':
			return -1
		}
		return r
	}, b)
}

func unescapePercent(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '%' && i+2 < len(b) {
			if n, err := strconv.ParseUint(string(b[i+1:i+3]), 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

func unescapeJSON(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'u', 'x':
			digits := 4
			if b[i] == 'x' {
				digits = 2
			}
			if i+digits < len(b) {
				if n, err := strconv.ParseUint(string(b[i+1:i+1+digits]), 16, 16); err == nil {
					out = utf8.AppendRune(out, rune(n))
					i += digits
					continue
				}
			}
			out = append(out, '\\', b[i])
		case 'n', 'r', 't':
			out = append(out, '\n')
		default:
			out = append(out, b[i])
		}
	}
	return out
}

// maxInflated bounds what one compressed piece is taken to hold.
const maxInflated = 4 << 20

// inflated is what every piece of gzip in the data holds, as far as it can be read.
func inflated(b []byte) (all [][]byte) {
	for {
		i := bytes.Index(b, []byte("\x1f\x8b\x08"))
		if i < 0 {
			return all
		}
		if r, err := gzip.NewReader(bytes.NewReader(b[i:])); err == nil {
			text, _ := io.ReadAll(io.LimitReader(r, maxInflated)) // what it was cut off from still counts
			all = append(all, text)
		}
		b = b[i+3:]
	}
}

// toUTF16 is a text in UTF-16, little or big end first.
func toUTF16(s string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			b.WriteByte(byte(u >> 8))
			b.WriteByte(byte(u))
		} else {
			b.WriteByte(byte(u))
			b.WriteByte(byte(u >> 8))
		}
	}
	return b.String()
}

// leakText words leaks for a failed test. It names classes, not texts.
func leakText(leaks []leak) string {
	var b strings.Builder
	for _, l := range leaks {
		fmt.Fprintf(&b, "\n  %s", l)
	}
	return b.String()
}
