package postcondition

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// selector is a compound of one tag, one id and any classes: div#main.a.b. The
// tag is in lower case; an empty field fits any element.
type selector struct {
	tag, id string
	classes []string
}

var (
	compound = regexp.MustCompile(`^[#.]?[-_\pL\p{Nd}]+([#.][-_\pL\p{Nd}]+)*$`)
	simple   = regexp.MustCompile(`[#.]?[^#.]+`)
)

func parseSelector(s string) (*selector, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, errors.New("must not be empty")
	}
	if !compound.MatchString(s) {
		return nil, errors.New("must be a tag, #id, .class, or these together; nothing else is supported")
	}
	sel := &selector{}
	for _, part := range simple.FindAllString(s, -1) {
		switch {
		case part[0] == '.':
			sel.classes = append(sel.classes, part[1:])
		case part[0] != '#':
			sel.tag = strings.ToLower(part)
		case sel.id != "":
			return nil, errors.New("must have one id at most")
		default:
			sel.id = part[1:]
		}
	}
	return sel, nil
}

func (s *selector) fits(t html.Token) bool {
	var id string
	var classes []string
	for _, a := range t.Attr {
		switch a.Key {
		case "id":
			id = a.Val
		case "class":
			classes = strings.Fields(a.Val)
		}
	}
	lacks := func(class string) bool { return !slices.Contains(classes, class) }
	return (s.tag == "" || s.tag == t.Data) && (s.id == "" || s.id == id) && !slices.ContainsFunc(s.classes, lacks)
}

const (
	// void elements have no content and no end tag.
	void = " area base br col embed hr img input link meta param source track wbr "
	// silent elements hold no text for a reader.
	silent = " script style template noscript iframe noembed noframes "
)

// endedBy lists the start tags that end an open element.
func endedBy(open string) string {
	switch open {
	case "li", "option", "tr":
		return " " + open + " "
	case "dt", "dd":
		return " dt dd "
	case "td", "th":
		return " td th tr "
	case "p":
		return " p div ul ol dl table form section article header footer main nav aside blockquote pre h1 h2 h3 h4 h5 h6 "
	default:
		return ""
	}
}

// among reports whether a list of elements has one of that name.
func among(list, name string) bool { return strings.Contains(list, " "+name+" ") }

// search looks for an element that fits sel, or for the whole document if sel is
// nil, whose text content matches. It returns the number of elements it tried, not
// counting those inside another one: their text is part of the outer one's.
//
// It reads tokens in one pass: to build a tree takes quadratic time on hostile
// pages. Scripts, styles and templates have no text content. The scan supplies
// omitted end tags of li, option, dt, dd, p, tr, td and th.
func search(page string, sel *selector, match func(content string) bool) (found bool, elements int) {
	s := &scan{selector: sel, match: match, open: make(map[string]int), inside: -1}
	if sel == nil {
		s.inside = 0
	}
	for z := html.NewTokenizer(strings.NewReader(page)); !s.found; {
		switch z.Next() {
		case html.ErrorToken: // the page ends, and with it the element or the document
			if s.inside >= 0 {
				s.evaluate()
			}
			return s.found, s.elements
		case html.TextToken:
			if s.inside >= 0 && s.hidden == 0 {
				s.text.Write(z.Text())
			}
		case html.StartTagToken:
			s.start(z.Token())
		case html.EndTagToken:
			name, _ := z.TagName()
			s.end(string(name))
		case html.SelfClosingTagToken, html.CommentToken, html.DoctypeToken:
		}
	}
	return s.found, s.elements
}

// scan is the state of a search.
type scan struct {
	selector *selector
	match    func(content string) bool

	stack []string       // open elements
	open  map[string]int // how often each is on the stack
	// inside and hidden are the heights of the stack at which the fitting
	// element, and an element without text content, are open. Outside of a
	// fitting element inside is -1; hidden is 0 where text counts.
	inside, hidden int

	text     strings.Builder
	elements int
	found    bool
}

// evaluate checks the text of the fitting element that ends here.
func (s *scan) evaluate() {
	s.elements++
	s.found = s.found || s.match(collapse(s.text.String()))
	s.text.Reset()
}

func (s *scan) start(t html.Token) {
	if among(void, t.Data) {
		return
	}
	for top := len(s.stack) - 1; top >= 0 && among(endedBy(s.stack[top]), t.Data); top-- {
		s.pop()
	}
	s.stack = append(s.stack, t.Data)
	s.open[t.Data]++
	if s.inside < 0 && s.selector.fits(t) {
		s.inside = len(s.stack)
	}
	if s.hidden == 0 && among(silent, t.Data) {
		s.hidden = len(s.stack)
	}
}

// end closes the nearest element of the name and all open elements in it. It
// ignores an end tag without its start.
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
		s.evaluate()
		s.inside = -1
	}
	if s.hidden == height {
		s.hidden = 0
	}
}

// collapse turns each run of white space into one space, and trims.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

// fold makes texts that differ in case only alike.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }
