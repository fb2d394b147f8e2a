package chat

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"weir/internal/completion"
	"weir/schemas"
)

const (
	whyName = "a request cannot choose where it goes, with which key, or who is called back: that is the configuration's; leave this member out"
	whyText = "this member is not known here, and holds an address: a request cannot choose where it goes or who is called back; leave it out"
)

// Further is a member that goes only to upstreams that pass it.
type Further struct {
	Name string // the member's, or the type of a tool that the provider performs
	At   string // a pointer to where it stands first
	tool bool   // that the provider performs
}

// search looks for what a request may not say, wherever it stands outside of the
// conversation, and for members beyond the closed set.
type search struct {
	dialect schemas.Dialect
	at      []string  // the names and numbers of the value that is looked at
	further []Further // each name once
	seen    map[string]struct{}
}

// value checks a value. Opened: it is part of a member that was noted, and is passed or
// refused with that member.
func (s *search) value(v gjson.Result, p position, opened bool) error {
	switch {
	case p == talk:
		return nil
	case v.IsObject():
		return s.object(v, p, opened)
	case v.IsArray():
		in := p.elements()
		for n, e := range v.All() {
			s.at = append(s.at, n.String())
			if err := s.value(e, in, opened); err != nil {
				return err
			}
			s.at = s.at[:len(s.at)-1]
		}
	case p == unknown && v.Type == gjson.String && address(v.Str):
		return refuse(pointer(s.at...), whyText)
	}
	return nil
}

func (s *search) object(v gjson.Result, p position, opened bool) error {
	if p == item || p == block {
		of, stored := ofItem(p, v)
		if stored != "" {
			if err := s.note(stored, false); err != nil {
				return err
			}
		}
		p = of
	}
	if p == tool {
		by, kind := executor(s.dialect, v)
		if kind != "" && !opened {
			if err := s.note(kind, true); err != nil {
				return err
			}
		}
		p, opened = by, opened || kind != ""
	}
	for name, m := range v.All() {
		s.at = append(s.at, name.Str)
		if err := s.member(name.Str, m, p, opened); err != nil {
			return err
		}
		s.at = s.at[:len(s.at)-1]
	}
	return nil
}

func (s *search) member(name string, v gjson.Result, p position, opened bool) error {
	folded := completion.Fold(name)
	if p.refuses(name, folded, v) {
		return refuse(pointer(s.at...), whyName)
	}
	if !opened && p.further(s.dialect, name, folded) {
		if err := s.note(name, false); err != nil {
			return err
		}
		opened = true
	}
	return s.value(v, p.member(s.dialect, name), opened)
}

var (
	// unread is what does not count in a text: signs before its first letter, and what no reader sees.
	unread = regexp.MustCompile(`^(?:[^/\\\pL\p{Nd}]|` + fillers + `)+|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\p{Cf}\p{Mn}]|` + fillers)
	// browsable is an address to a browser, which needs no slash behind its own schemes; absolute has any
	// scheme, of more than the one letter of a drive, or is one somewhere in a text without spaces.
	browsable = regexp.MustCompile(`^(?://|(?i:https?|wss?|ftp):)[^ ]`)
	absolute  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]+:/|^[^ \t\r\n]*://[^ \t\r\n]*$`)
	// browser minds no line break, and takes either slash.
	browser = strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/") //nolint:gochecknoglobals // a constant
)

// fillers are letters that no reader sees.
const fillers = `[\x{115f}\x{1160}\x{3164}\x{ffa0}]`

// address reports whether a text is one, or a list of them, rather than a sentence that has one in it.
func address(text string) bool {
	if !strings.ContainsAny(text, `:/\`) {
		return false
	}
	text = unread.ReplaceAllLiteralString(text, "")
	return absolute.MatchString(text) || browsable.MatchString(browser.Replace(text))
}

// note remembers a member beyond the closed set, or the type of a tool.
func (s *search) note(name string, tool bool) error {
	if _, there := s.seen[name]; there {
		return nil
	}
	at := pointer(s.at...)
	switch {
	case len(name) > completion.MaxMember:
		return refuse(at, "this name is not known here, and has more than "+strconv.Itoa(completion.MaxMember)+" bytes; leave it out")
	case len(s.further) == maxMembers:
		return refuse(at, "the request has more than "+strconv.Itoa(maxMembers)+" names that are not known here; leave them out")
	}
	name = strings.Clone(name) // the body's memory is not held for it
	s.seen[name] = struct{}{}
	s.further = append(s.further, Further{name, at, tool})
	return nil
}

// maxLacks is how many names a refusal lists.
const maxLacks = 8

// Unpassed is the refusal of a request with members that no upstream passes. lacks are
// those that one upstream does not, and key is where the configuration describes it.
func Unpassed(further []Further, lacks []string, key string) error {
	var first Further
	for _, f := range further {
		if f.Name == lacks[0] {
			first = f
		}
	}
	for _, name := range lacks {
		if !completion.ValidMember(name) || completion.Refused(name) {
			return refuse(first.At, "no upstream of this model passes this member; leave it out")
		}
	}
	more := ""
	if len(lacks) > maxLacks {
		lacks, more = lacks[:maxLacks], ", …"
	}
	open := "have the operator write " + key + ".pass: [" + strings.Join(lacks, ", ") + more + "]"
	if first.tool {
		return refuse(first.At, "the provider performs the tool "+lacks[0]+" itself, and no upstream of this model passes it; turn it off in the client, or "+open)
	}
	instead := "leave it out"
	if lacks[0] == itemReference {
		instead = "have the client send the items themselves (store: false; in the AI SDK providerOptions.openai.store)"
	}
	return refuse(first.At, "no upstream of this model passes "+lacks[0]+"; "+instead+", or "+open)
}
