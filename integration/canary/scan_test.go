package canary_test

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// canary is a text that stands for content, in one place of the input.
type canary struct {
	class, text string
	// secret: only the upstream may receive it. Its owner may not read it either.
	secret bool
}

// planted holds the canaries of a test. It is safe for concurrent use.
type planted struct {
	mu  sync.Mutex
	all []canary
}

// The beginnings of canaries. A beginning alone counts as a leak, so those of secrets differ.
const (
	contentMark = "AGWCANARY-"
	secretMark  = "KEYCANARY-"
)

// plant makes a canary for a place in the input.
func (g *planted) plant(class string) string {
	return g.add(canary{class: class, text: contentMark + tidy(class) + "-" + random(8)})
}

// word is a canary of lower case that is a valid name of a model, a branch or a host.
func (g *planted) word(class string) string {
	return g.add(canary{class: class, text: strings.ToLower(contentMark) + random(8)})
}

// once is the canary of a class, which it plants on the first call.
func (g *planted) once(class string) string {
	if text := g.find(class, false); text != "" {
		return text
	}
	return g.plant(class)
}

// secret is the secret of a class, which it makes on the first call.
func (g *planted) secret(class string) string {
	if text := g.find(class, true); text != "" {
		return text
	}
	return g.add(canary{class: class, text: secretMark + tidy(class) + "-" + random(8), secret: true})
}

func (g *planted) find(class string, secret bool) string {
	for _, c := range g.list() {
		if c.class == class && c.secret == secret {
			return c.text
		}
	}
	return ""
}

// known adds an existing text as a secret.
func (g *planted) known(class, text string) { g.add(canary{class: class, text: text, secret: true}) }

func (g *planted) add(c canary) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, c)
	return c.text
}

func (g *planted) list() []canary {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all)
}

// reached reports whether a text in lower case holds a canary of a class.
func (g *planted) reached(class, lower string) bool {
	return slices.ContainsFunc(g.list(), func(c canary) bool {
		return c.class == class && strings.Contains(lower, strings.ToLower(c.text))
	})
}

// tidy keeps of a class what is valid in an id, a header's name and a host.
func tidy(class string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, class), "-")
}

// random returns two letters for each byte. None is a digit of hex: evidence holds so many
// hashes that one of them would match the end of a canary.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	var s strings.Builder
	for _, c := range b {
		s.WriteByte('g' + c>>4)
		s.WriteByte('g' + c&15)
	}
	return s.String()
}

// output is the output of one place.
type output struct {
	name string
	data []byte
	// owner: its reader may see all content but secrets.
	owner bool
	// shown are classes that it may hold. Parts of them can remain anywhere in it, such as in free pages
	// of a database, so the beginning that all canaries have in common is not searched for.
	shown []string
}

// leak is a canary in a sink that must not hold it. It names classes, not texts.
type leak struct{ output, class, form string }

// scan searches every sink for every canary, in every form. A sink without data is an error:
// it proves nothing.
func scan(canaries []canary, sinks []output) ([]leak, error) {
	all, secrets := newSeeker(canaries, false), newSeeker(canaries, true)
	found := map[leak]bool{}
	for _, s := range sinks {
		if len(bytes.TrimSpace(s.data)) == 0 {
			return nil, fmt.Errorf("the sink %q has no data", s.name)
		}
		k := all
		if s.owner {
			k = secrets
		}
		for _, v := range views(s.data, 2) {
			for _, n := range k.find(v) {
				if s.shown != nil && (n.form == beginning || slices.Contains(s.shown, n.class)) {
					continue
				}
				found[leak{s.name, n.class, n.form}] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}

// needle is one form of a canary, in lower case: it is compared without case.
type needle struct{ class, form, text string }

// beginning is the form of a needle that all canaries have in common.
const beginning = "its beginning"

// shortest is the minimum length of a needle, and the length of the beginning of a canary.
const shortest = 8

// tail is the length of the end of a canary: so long that no other random text has it by chance.
const tail = 12

// forms are a canary as it is, cut, encoded and hashed. Escapes are undone by views.
func forms(c canary) (all []needle) {
	add := func(form, text string) {
		if len(text) >= shortest {
			all = append(all, needle{c.class, form, string(bytes.ToLower([]byte(text)))})
		}
	}
	add("text", c.text)
	add("its end", c.text[max(0, len(c.text)-tail):])
	all = append(all, needle{"some canary", beginning, strings.ToLower(c.text[:shortest])})
	add("hex", hex.EncodeToString([]byte(c.text)))
	for _, text := range []string{c.text, strings.ToLower(c.text)} {
		for shift := range 3 {
			add("base64", aligned(base64.StdEncoding, text, shift))
			add("base64url", aligned(base64.URLEncoding, text, shift))
		}
	}
	for of, text := range map[string][]byte{"text": []byte(c.text), "JSON": []byte(`"` + c.text + `"`)} {
		m, s1, s256 := md5.Sum(text), sha1.Sum(text), sha256.Sum256(text)
		for name, sum := range map[string][]byte{"md5": m[:], "sha1": s1[:], "sha256": s256[:]} {
			for form, text := range map[string]string{
				"hex": hex.EncodeToString(sum), "base64": base64.RawStdEncoding.EncodeToString(sum), "base64url": base64.RawURLEncoding.EncodeToString(sum), "bytes": string(sum),
			} {
				add(name+" of its "+of+" in "+form, text)
			}
		}
	}
	return all
}

// aligned is the part of a text's base64 that depends on neither neighbour, where the text
// begins shift bytes into a group of three.
func aligned(e *base64.Encoding, text string, shift int) string {
	coded := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", shift) + text))
	return coded[[]int{0, 2, 3}[shift] : (shift+len(text))*8/6]
}

// seeker finds needles by their first eight bytes, and a filter of the first four, so that its
// time does not grow with their number.
type seeker struct {
	needles map[[shortest]byte][]needle
	filter  []uint64
}

func newSeeker(canaries []canary, secretsOnly bool) *seeker {
	k, seen := &seeker{map[[shortest]byte][]needle{}, make([]uint64, 1<<18)}, map[string]bool{}
	for _, c := range canaries {
		if secretsOnly && !c.secret {
			continue
		}
		for _, n := range forms(c) {
			if seen[n.text] { // many canaries have one beginning
				continue
			}
			seen[n.text] = true
			head := [shortest]byte([]byte(n.text))
			k.needles[head] = append(k.needles[head], n)
			bit := hash4(head[:])
			k.filter[bit/64] |= 1 << (bit % 64)
		}
	}
	return k
}

// hash4 is the place of four bytes in a filter.
func hash4(b []byte) uint32 { return binary.LittleEndian.Uint32(b) * 2654435761 >> 8 }

func (k *seeker) find(data []byte) (found []needle) {
	data = bytes.ToLower(data)
	for i := 0; i+shortest <= len(data); i++ {
		if bit := hash4(data[i:]); k.filter[bit/64]&(1<<(bit%64)) == 0 {
			continue
		}
		for _, n := range k.needles[[shortest]byte(data[i:])] {
			if bytes.HasPrefix(data[i:], []byte(n.text)) {
				found = append(found, n)
			}
		}
	}
	return found
}

// views are the data as it is, then with one layer of escapes undone after the other, and the
// content of each gzip stream in it.
func views(data []byte, depth int) [][]byte {
	all := [][]byte{data, squeezed(data)}
	if depth > 0 {
		for _, inner := range inflated(data) {
			all = append(all, views(inner, depth-1)...)
		}
	}
	for range 6 {
		next := unescape(data)
		if bytes.Equal(next, data) {
			break
		}
		data = next
		all = append(all, data)
	}
	return append(all, squeezed(data))
}

// squeezed leaves out line breaks, spaces and the zeros of UTF-16.
func squeezed(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n\x00\ufeff\u00ad\u200b", r) {
			return -1
		}
		return r
	}, b)
}

// unescape undoes one layer of the escapes of URLs, JSON, Go and HTML.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		at, digits := i+1, 0
		switch {
		case b[i] == '%':
			digits = 2
		case b[i] == '\\' && at < len(b):
			digits = map[byte]int{'u': 4, 'x': 2}[b[at]]
			at++
		}
		if digits > 0 && at+digits <= len(b) {
			if n, err := strconv.ParseUint(string(b[at:at+digits]), 16, 16); err == nil {
				out = utf8.AppendRune(out, rune(n))
				i = at + digits - 1
				continue
			}
		}
		if b[i] == '\\' && i+1 < len(b) && digits == 0 {
			i++
		}
		out = append(out, b[i])
	}
	if bytes.IndexByte(out, '&') >= 0 {
		return []byte(html.UnescapeString(string(out)))
	}
	return out
}

// maxInflated bounds the content that is read of one gzip stream.
const maxInflated = 4 << 20

func inflated(b []byte) (all [][]byte) {
	for {
		i := bytes.Index(b, []byte("\x1f\x8b\x08"))
		if i < 0 {
			return all
		}
		if r, err := gzip.NewReader(bytes.NewReader(b[i:])); err == nil {
			text, _ := io.ReadAll(io.LimitReader(r, maxInflated)) // a truncated stream still counts
			all = append(all, text)
		}
		b = b[i+3:]
	}
}
