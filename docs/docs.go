// Package docs renders the documentation as a site: the binary serves it at /docs/, and
// `go run ./docs/site DIR` writes it as files.
package docs

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed *.md */*.md site/page.html site/*.css
//go:embed console/flow-wide-*.png console/action-wide-*.png console/denied-wide-*.png
var files embed.FS

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID())) //nolint:gochecknoglobals // nothing changes it

// Site returns the files of the site by name, such as how-to/operate.html. A link to a file outside
// of docs becomes its text and the file's name.
func Site() (map[string][]byte, error) {
	layout, err := template.ParseFS(files, "site/page.html")
	if err != nil {
		return nil, err
	}
	sections, err := contents()
	if err != nil {
		return nil, err
	}
	site := map[string][]byte{}
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
			return err
		}
		data, err := fs.ReadFile(files, name)
		switch {
		case err != nil:
			return err
		case path.Ext(name) == ".md":
			site[htmlName(name)], err = page(layout, sections, name, data)
			return err
		}
		site[strings.TrimPrefix(name, "site/")] = data
		return nil
	})
	return site, err
}

// Files is Site for the server. The test of the site shows that Site does not fail.
func Files() map[string][]byte {
	site, err := Site()
	if err != nil {
		panic(err) // the pages are part of the program
	}
	return site
}

// section is one part of the navigation.
type section struct {
	Title string
	Links []link
}

type link struct{ Page, Title string }

// contents reads the navigation from the index, which links to every page.
func contents() ([]section, error) {
	source, err := fs.ReadFile(files, "index.md")
	if err != nil {
		return nil, err
	}
	var sections []section
	err = ast.Walk(parse(source), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && entering && h.Level == 2 {
			sections = append(sections, section{Title: words(h, source)})
		}
		if a, ok := n.(*ast.Link); ok && entering && len(sections) > 0 {
			s := &sections[len(sections)-1]
			s.Links = append(s.Links, link{Page: htmlName(string(a.Destination)), Title: words(a, source)})
		}
		return ast.WalkContinue, nil
	})
	return sections, err
}

// page renders one Markdown file inside the layout.
func page(layout *template.Template, sections []section, name string, source []byte) ([]byte, error) {
	doc := parse(source)
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // fails if this function does
		if a, ok := n.(*ast.Link); ok && entering {
			a.Destination = []byte(target(name, string(a.Destination)))
		}
		return ast.WalkContinue, nil
	})
	var body, out bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	title := ""
	if h, ok := doc.FirstChild().(*ast.Heading); ok {
		title = words(h, source)
	}
	err := layout.ExecuteTemplate(&out, "page.html", map[string]any{
		"Title": title, "Up": "./" + strings.Repeat("../", strings.Count(name, "/")), "Page": htmlName(name), "Sections": sections,
		"Body": template.HTML(shape(body.String())), //nolint:gosec // the text is this repository's own, and raw HTML in it is dropped
	})
	return out.Bytes(), err
}

var (
	outside = regexp.MustCompile(`(?s)<a href="/([^"]*)">(.*?)</a>`)
	picture = regexp.MustCompile(`<img src="([^"]+)-light\.png"[^>]*>`)
)

// shape lets wide tables and code scroll by keyboard, and shows the dark form of a picture in dark
// mode.
func shape(html string) string {
	html = outside.ReplaceAllStringFunc(html, func(a string) string {
		m := outside.FindStringSubmatch(a)
		if strings.Contains(m[2], m[1]) {
			return m[2]
		}
		return m[2] + " (<code>" + m[1] + "</code>)"
	})
	html = picture.ReplaceAllString(html, `<picture><source media="(prefers-color-scheme: dark)" srcset="$1-dark.png">$0</picture>`)
	return strings.NewReplacer(
		"<!-- raw HTML omitted -->\n", "", // comments: the test of the site finds other HTML
		"<pre>", `<pre tabindex="0">`,
		"<table>", `<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>`, "</table>", "</table></div>",
	).Replace(html)
}

// target returns the address of a link's target within the site: the file's path in the repository
// after a slash, if it is outside of docs.
func target(from, to string) string {
	file, anchor, found := strings.Cut(to, "#")
	if strings.Contains(to, "://") || file == "" {
		return to
	}
	if at := path.Join("docs", path.Dir(from), file); !strings.HasPrefix(at, "docs/") {
		return "/" + at
	}
	if found {
		anchor = "#" + anchor
	}
	return htmlName(file) + anchor
}

func htmlName(name string) string {
	if before, ok := strings.CutSuffix(name, ".md"); ok {
		return before + ".html"
	}
	return name
}

func parse(source []byte) ast.Node {
	ids := parser.WithContext(parser.NewContext(parser.WithIDs(&headings{seen: map[string]int{}})))
	return markdown.Parser().Parse(text.NewReader(source), ids)
}

// words returns the plain text of a node.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		} else {
			b.WriteString(words(c, source))
		}
	}
	return b.String()
}

// headings makes the anchors of headings as GitHub does.
type headings struct{ seen map[string]int }

func (h *headings) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, string(bytes.TrimSpace(value)))
	n := h.seen[id]
	h.seen[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (h *headings) Put([]byte) {}
