package app

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConsoleLinksAreRoutes: a surface serves each path that the pages of the console request or link to.
func TestConsoleLinksAreRoutes(t *testing.T) {
	t.Parallel()
	var routes []string
	for _, s := range allSurfaces(tokenNode.node(t)) {
		for _, r := range s.Routes {
			routes = append(routes, r.Path)
		}
	}
	value := regexp.MustCompile(`\$\{[^{}]*\}`)
	link := regexp.MustCompile("[\"`](/(?:v1|agents|console|docs|readyz)\\b[^\"`?]*)|base \\+ \"(/[a-z]+)\"")
	seen := 0
	pages := os.DirFS("../../egress/console/ui/src")
	require.NoError(t, fs.WalkDir(pages, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".ts") && !strings.HasSuffix(name, ".tsx") {
			return err
		}
		text, err := fs.ReadFile(pages, name)
		for _, m := range link.FindAllStringSubmatch(value.ReplaceAllString(string(text), ":x"), -1) {
			seen++
			assert.True(t, slices.ContainsFunc(routes, func(route string) bool {
				return m[1] != "" && leads(m[1], route) || m[2] != "" && strings.HasSuffix(route, m[2])
			}), "%s: no route serves %s", name, m[0])
		}
		return err
	}))
	require.Greater(t, seen, 40)
}

// leads reports whether a path, of which :x stands for any value, is a route's.
func leads(path, route string) bool {
	have, want := strings.Split(path, "/"), strings.Split(route, "/")
	for i, w := range want {
		switch {
		case strings.HasPrefix(w, "*"):
			return true
		case i >= len(have), have[i] != w && have[i] != ":x" && !strings.HasPrefix(w, ":"):
			return false
		}
	}
	return len(have) == len(want)
}
