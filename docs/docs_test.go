package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	ids        = regexp.MustCompile(` id="([^"]*)"`)
	references = regexp.MustCompile(` (?:href|src|srcset)="([^"]*)"`)
)

// anchors returns the anchors of a page, and fails on a doubled one.
func anchors(t *testing.T, name string, html []byte) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, m := range ids.FindAllSubmatch(html, -1) {
		assert.False(t, found[string(m[1])], "%s: the id %s is there twice", name, m[1])
		found[string(m[1])] = true
	}
	return found
}

// TestLinks: every relative link of the Markdown of the repository leads to a file, and to a heading
// if it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, root := range []string{"../README.md", ".", "../deploy", "../examples"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err == nil && d.IsDir() && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err == nil && path.Ext(name) == ".md" {
				pages = append(pages, name)
			}
			return err
		})
		require.NoError(t, err)
	}
	require.Greater(t, len(pages), 20)
	checked := 0
	for _, name := range pages {
		for _, to := range links(t, name) {
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(to, "#")
			at := name
			if file != "" {
				at = filepath.Join(filepath.Dir(name), filepath.FromSlash(file))
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: %s: there is no such file", name, to)
				continue
			}
			if anchor != "" && !anchors(t, at, render(t, at))[anchor] {
				t.Errorf("%s: %s: that page has no such heading", name, to)
			}
		}
	}
	require.Greater(t, checked, 50)
}

func render(t *testing.T, name string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Clean(name))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, markdown.Renderer().Render(&b, source, parse(source)))
	html := b.Bytes()
	if name != "../README.md" { // GitHub alone shows that one
		require.LessOrEqual(t, strings.Count(string(html), "raw HTML omitted"), strings.Count(string(source), "<!--"), "%s: use Markdown, not HTML", name)
	}
	return html
}

// links returns the targets of the links and pictures of a page. GitHub shows those of raw HTML, too.
func links(t *testing.T, name string) []string {
	t.Helper()
	source, err := os.ReadFile(filepath.Clean(name))
	require.NoError(t, err)
	var all []string
	for _, m := range references.FindAllStringSubmatch(string(render(t, name))+string(source), -1) {
		all = append(all, m[1])
	}
	return all
}

// TestSite: each page of docs is in the site, is listed once in its navigation, and all that a page
// refers to is in the site.
func TestSite(t *testing.T) {
	t.Parallel()
	site, err := Site()
	require.NoError(t, err)
	index, ok := site["index.html"]
	require.True(t, ok)
	_, navigation, ok := strings.Cut(string(index), "<nav")
	require.True(t, ok)
	pages := 0
	for name, html := range site {
		if path.Ext(name) != ".html" {
			continue
		}
		pages++
		if name != "index.html" && !strings.HasPrefix(name, "adr/0") { // adr/README.md lists the decisions
			assert.Equal(t, 1, strings.Count(navigation, `"./`+name+`"`), "docs/index.md must link to %s", name)
		}
		assert.NotRegexp(t, `<script|<style|style=| on[a-z]+=`, string(html), "%s: the browser would not run it", name)
		assert.NotContains(t, string(html), "<title> ·", "%s: begin with the title", name)
		assert.Equal(t, 1, strings.Count(string(html), "<h1"), "%s: headings of the first level", name)
		text := string(html)
		if name != "index.html" { // all have the same navigation
			text, _, _ = strings.Cut(text, "<nav")
		}
		for _, m := range references.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, ":") { // another site
				continue
			}
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			to, ok := site[at]
			if assert.True(t, ok, "%s: %s is not in the site", name, m[1]) && anchor != "" {
				assert.True(t, anchors(t, at, to)[anchor], "%s: %s: no such anchor", name, m[1])
			}
		}
	}
	markdown, err := filepath.Glob("*.md")
	require.NoError(t, err)
	below, err := filepath.Glob("*/*.md")
	require.NoError(t, err)
	require.Equal(t, len(markdown)+len(below), pages, "a page is a Markdown file, and reverse")
}
