package postcondition

import (
	"errors"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// selector is a compound of one tag, one id and any classes: div#main.a.b. The
// tag is in lower case; what is empty fits anything.
type selector struct {
	tag, id string
	classes []string
}

func parseSelector(s string) (*selector, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, errors.New("must not be empty")
	}
	sel := &selector{}
	for rest := s; rest != ""; {
		mark := byte(0)
		if rest[0] == '#' || rest[0] == '.' {
			mark, rest = rest[0], rest[1:]
		}
		end := strings.IndexAny(rest, "#.")
		if end < 0 {
			end = len(rest)
		}
		name := rest[:end]
		rest = rest[end:]
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			return nil, errors.New("must be a tag, #id, .class, or these together; nothing else is supported")
		}
		switch {
		case mark == '.':
			sel.classes = append(sel.classes, name)
		case mark == 0:
			sel.tag = strings.ToLower(name)
		case sel.id != "":
			return nil, errors.New("must have one id at most")
		default:
			sel.id = name
		}
	}
	return sel, nil
}

func (s *selector) fits(t html.Token) bool {
	if s.tag != "" && s.tag != t.Data {
		return false
	}
	var id, classes string
	for _, a := range t.Attr {
		switch a.Key {
		case "id":
			id = a.Val
		case "class":
			classes = a.Val
		}
	}
	if s.id != "" && s.id != id {
		return false
	}
	for _, want := range s.classes {
		found := false
		for have := range strings.FieldsSeq(classes) {
			found = found || have == want
		}
		if !found {
			return false
		}
	}
	return true
}

// search looks for an element that fits sel, or for the whole document if sel is
// nil, whose text content matches. It returns how many were looked at, not
// counting elements inside such elements: their text is in the outer one's.
//
// It works on tokens in one pass: building a tree takes quadratic time on pages
// that are made for it. Scripts, styles and templates have no text content. Of
// end tags that HTML lets out, those of li, dt, dd, p, option, tr, td and th are
// supplied.
func search(page string, sel *selector, match func(content string) bool) (found bool, elements int) {
	s := &scan{
		z: html.NewTokenizer(strings.NewReader(page)), open: make(map[string]int),
		selector: sel, match: match, inside: -1,
	}
	if sel == nil {
		s.inside = 0
	}
	for more := true; more && !s.found; {
		more = s.next()
	}
	if !s.found && s.inside >= 0 { // the element, or the document, ends with the page
		s.judge()
	}
	return s.found, s.elements
}

// scan is the state of a search.
type scan struct {
	z        *html.Tokenizer
	selector *selector
	match    func(content string) bool

	stack []string       // open elements
	open  map[string]int // how often each is on the stack
	// inside and hidden are the heights of the stack at which the fitting
	// element, and an element without text content, are open. Outside of a
	// fitting element inside is -1; hidden is 0 where text counts.
	inside, hidden int

	text     strings.Builder
	space    bool // white space is due before the next text
	elements int
	found    bool
}

// judge looks at the text of the fitting element that ends here.
func (s *scan) judge() {
	s.elements++
	s.found = s.found || s.match(s.text.String())
	s.text.Reset()
	s.space = false
}

// next reads one token; false is the end of the page.
func (s *scan) next() bool {
	switch s.z.Next() {
	case html.ErrorToken:
		return false
	case html.TextToken:
		if s.inside >= 0 && s.hidden == 0 {
			s.write(html.UnescapeString(string(s.z.Text())))
		}
	case html.StartTagToken:
		s.start(s.z.Token())
	case html.EndTagToken:
		name, _ := s.z.TagName()
		s.end(string(name))
	case html.SelfClosingTagToken, html.CommentToken, html.DoctypeToken:
	}
	return true
}

func (s *scan) start(t html.Token) {
	if void(t.DataAtom) {
		return
	}
	for top := len(s.stack) - 1; top >= 0 && ends(t.DataAtom, s.stack[top]); top-- {
		s.pop()
	}
	s.stack = append(s.stack, t.Data)
	s.open[t.Data]++
	if s.inside < 0 && s.selector.fits(t) {
		s.inside = len(s.stack)
	}
	if s.hidden == 0 && silent(t.DataAtom) {
		s.hidden = len(s.stack)
	}
}

// end closes the nearest element of the name and what is open in it. An end tag
// without its start is passed over.
func (s *scan) end(name string) {
	if s.open[name] == 0 {
		return
	}
	for last := ""; last != name; {
		last = s.stack[len(s.stack)-1]
		s.pop()
	}
}

func (s *scan) pop() {
	height := len(s.stack)
	s.open[s.stack[height-1]]--
	s.stack = s.stack[:height-1]
	if s.inside == height {
		s.judge()
		s.inside = -1
	}
	if s.hidden == height {
		s.hidden = 0
	}
}

// write adds text with its white space collapsed.
func (s *scan) write(text string) {
	for _, r := range text {
		if unicode.IsSpace(r) {
			s.space = true
			continue
		}
		if s.space && s.text.Len() > 0 {
			s.text.WriteByte(' ')
		}
		s.space = false
		s.text.WriteRune(r)
	}
}

// collapse turns each run of white space into one space, and trims.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

// fold makes texts that differ in case only alike.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// void elements have no content and no end tag.
func void(a atom.Atom) bool {
	switch a {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input,
		atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return true
	default:
		return false
	}
}

// silent elements hold no text for a reader.
func silent(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Noembed, atom.Noframes:
		return true
	default:
		return false
	}
}

// ends reports whether the start of an element ends an open one of that name.
func ends(start atom.Atom, open string) bool {
	switch start {
	case atom.Li, atom.Option:
		return open == start.String()
	case atom.Dt, atom.Dd:
		return open == "dt" || open == "dd"
	case atom.Td, atom.Th:
		return open == "td" || open == "th"
	case atom.Tr:
		return open == "tr" || open == "td" || open == "th"
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Dl, atom.Table, atom.Form, atom.Section, atom.Article,
		atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Aside, atom.Blockquote, atom.Pre,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return open == "p"
	default:
		return false
	}
}
