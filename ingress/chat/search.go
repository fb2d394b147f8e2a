package chat

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/completion"
)

const (
	whyName = "a request cannot choose where it goes, with which key, or who is called back: that is the configuration's; leave this member out"
	whyText = "this member is not known here, and holds an address: a request cannot choose where it goes or who is called back; leave it out"
)

// Further is a member that goes only to upstreams that pass it.
type Further struct {
	Name string // the member's, or the type of a tool that the provider performs
	At   string // a pointer to where it stands first
}

// search looks for what a request may not say, wherever it stands outside of the
// conversation, and for members beyond the closed set.
type search struct {
	dec     *jsontext.Decoder
	further []Further // each name once
	seen    map[string]struct{}
}

func newSearch(body []byte) *search {
	return &search{dec: decoder(body), seen: map[string]struct{}{}}
}

// value reads the next value. Opened: it lies in a member that was noted, and is passed
// or refused with that.
func (s *search) value(p place, opened bool) error {
	if p == talk {
		return s.dec.SkipValue()
	}
	switch s.dec.PeekKind() {
	case '{':
		return s.object(p, opened)
	case '[':
		return s.array(p, opened)
	default:
		tok, err := s.dec.ReadToken()
		if err == nil && p == unknown && tok.Kind() == '"' && address(tok.String()) {
			err = refuse(string(s.dec.StackPointer()), whyText)
		}
		return err
	}
}

func (s *search) object(p place, opened bool) error {
	kind := ""
	if p == tool {
		p, kind = performer(s.dec.UnreadBuffer())
	}
	_, err := s.dec.ReadToken()
	if err == nil && kind != "" && !opened {
		opened, err = true, s.note(kind)
	}
	for err == nil && s.dec.PeekKind() != '}' {
		err = s.member(p, opened)
	}
	if err == nil {
		_, err = s.dec.ReadToken()
	}
	return err
}

func (s *search) member(p place, opened bool) error {
	tok, err := s.dec.ReadToken()
	if err != nil {
		return err
	}
	name := tok.String()
	folded := completion.Fold(name)
	if p.refuses(name, folded, s.dec.PeekKind()) {
		return refuse(string(s.dec.StackPointer()), whyName)
	}
	if !opened && p.further(name, folded) {
		if err := s.note(name); err != nil {
			return err
		}
		opened = true
	}
	return s.value(p.member(name), opened)
}

func (s *search) array(p place, opened bool) error {
	_, err := s.dec.ReadToken()
	for err == nil && s.dec.PeekKind() != ']' {
		err = s.value(p.item(), opened)
	}
	if err == nil {
		_, err = s.dec.ReadToken()
	}
	return err
}

// note remembers a member beyond the closed set.
func (s *search) note(name string) error {
	if _, there := s.seen[name]; there {
		return nil
	}
	at := string(s.dec.StackPointer())
	switch {
	case len(name) > completion.MaxMember:
		return refuse(at, "this name is not known here, and has more than "+strconv.Itoa(completion.MaxMember)+" bytes; leave it out")
	case len(s.further) == maxMembers:
		return refuse(at, "the request has more than "+strconv.Itoa(maxMembers)+" names that are not known here; leave them out")
	}
	s.seen[name] = struct{}{}
	s.further = append(s.further, Further{name, at})
	return nil
}

// maxLacks is how many names a refusal lists.
const maxLacks = 8

// Unpassed is the refusal of a request with members that no upstream passes. lacks are
// those that one upstream does not, and key is where the configuration describes it.
func Unpassed(further []Further, lacks []string, key string) error {
	at := ""
	for _, f := range further {
		if f.Name == lacks[0] {
			at = f.At
		}
	}
	for _, name := range lacks {
		if !completion.ValidMember(name) || completion.Refused(name) {
			return refuse(at, "no upstream of this model passes this member; leave it out")
		}
	}
	more := ""
	if len(lacks) > maxLacks {
		lacks, more = lacks[:maxLacks], ", …"
	}
	return refuse(at, "no upstream of this model passes "+lacks[0]+"; leave it out, or have the operator write "+
		key+".pass: ["+strings.Join(lacks, ", ")+more+"]")
}
