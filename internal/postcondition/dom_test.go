package postcondition_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDOMContains(t *testing.T) {
	t.Parallel()
	tests := []struct {
		page, text, selector string
		fold, want           bool
	}{
		{`<p>Hello <b>big</b>\n  world</p>`, "Hello big world", "", false, true},
		{`<p>Hel<i>lo</i></p>`, "Hello", "", false, true},
		{`<p>a &amp; b&nbsp;c &lt;x&gt;</p>`, "a & b c <x>", "", false, true},
		{`<p>&amp;lt;</p>`, "&lt;", "", false, true},
		{`<p>&amp;lt;</p>`, "<", "", false, false},
		{`<p>Hello</p>`, "hello", "", false, false},
		{`<p>HELLO ÄÖ ſ</p>`, "hello äö s", "", true, true},
		{`<p title="Hello">x</p>`, "Hello", "", false, false},
		{`<!-- Hello --><p>x</p>`, "Hello", "", false, false},
		{`<script>Hello</script><style>Hello</style><template><p>Hello</p><template></template>Hello</template><noscript>Hello</noscript>x`, "Hello", "", false, false},
		{`<template>a</template>Hello`, "Hello", "", false, true},
		{`<title>Hello</title><textarea>World</textarea>`, "HelloWorld", "", false, true},
		{`plain text`, "plain  \n text", "", false, true},
		{``, "a", "", false, false},
		{`<p>a</p><div>Hello</div>`, "Hello", "p", false, false},
		{`<p>a</p><DIV>Hello</DIV>`, "Hello", "Div", false, true},
		{`<div id=a>x</div><div id=b>Hello</div>`, "Hello", "#b", false, true},
		{`<div id=a>x</div><div id=b>Hello</div>`, "Hello", "#a", false, false},
		{`<div id=a>x</div><div id=b>Hello</div>`, "Hello", "#B", false, false},
		{`<p class="x y">Hello</p>`, "Hello", ".y", false, true},
		{`<p class="x y">Hello</p>`, "Hello", "p.y.x", false, true},
		{`<p class="x y">Hello</p>`, "Hello", "p.y.z", false, false},
		{`<p id=i class="x">Hello</p>`, "Hello", "p#i.x", false, true},
		{`<p id=i class="x">Hello</p>`, "Hello", "div#i.x", false, false},
		{`<div class=a><div>inner</div>Hello</div>after`, "Hello", ".a", false, true},
		{`<div class=a><div>inner</div></div>Hello`, "Hello", ".a", false, false},
		{`<div class=a><br><img src=x><input>Hello</div>`, "Hello", ".a", false, true},
		{`<div class=a></b></i>Hello</div>`, "Hello", ".a", false, true},
		{`<div class=a><b>x</div>Hello`, "Hello", ".a", false, false},
		{`<div class=a><div class=a>Hello</div></div>`, "Hello", ".a", false, true},
		{`<li class=a>x<li>Hello`, "Hello", ".a", false, false},
		{`<li class=a>x<li class=a>Hello`, "Hello", ".a", false, true},
		{`<li class=a>x<li class=a>Hello`, "xHello", ".a", false, false},
		{`<p class=a>x<p>Hello`, "Hello", ".a", false, false},
		{`<tr><td class=a>x<td>Hello`, "Hello", ".a", false, false},
		{`<tr class=a><td>x<tr><td>Hello`, "Hello", ".a", false, false},
		{`<dl><dt class=a>x<dd>Hello`, "Hello", ".a", false, false},
		{`<p class=a>a b</p><p class=a>c</p>`, "b c", ".a", false, false},
		{`<p class=a>Hello`, "Hello", ".a", false, true},
		{`<p class=a>x</p>`, "Hello", ".a", false, false},
		{`<svg class=a /><p>Hello`, "Hello", ".a", false, false},
	}
	for _, tt := range tests {
		p := map[string]any{"type": "dom_contains", "text": tt.text}
		if tt.fold {
			p["case_insensitive"] = true
		}
		if tt.selector != "" {
			p["selector"] = tt.selector
		}
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		got, report := evaluate(t, string(raw), page(strings.ReplaceAll(tt.page, `\n`, "\n")))
		require.Equal(t, tt.want, got, "%s %s %s", tt.page, raw, report)
	}
}

func TestDOMContainsReadsJSONAsText(t *testing.T) {
	t.Parallel()
	got, _ := evaluate(t, `{"type":"dom_contains","text":"Hello"}`, doc(`"<p>Hello"`))
	require.True(t, got)
	got, _ = evaluate(t, `{"type":"dom_contains","text":"Hello"}`, doc(`{"a":"Hello"}`))
	require.True(t, got)
	latin := doc(`"` + base64.StdEncoding.EncodeToString([]byte("<p>caf\xe9 Hello")) + `"`)
	latin.Base64 = true
	got, _ = evaluate(t, `{"type":"dom_contains","text":"Hello"}`, latin)
	require.True(t, got, "a page in another coding is searched as its bytes")
	got, _ = evaluate(t, `{"type":"dom_contains","text":"PHA"}`, latin)
	require.False(t, got, "base64 is no text of the page")
	got, _ = evaluate(t, `{"type":"dom_contains","text":"null"}`, doc(`null`))
	require.False(t, got)
}

// Each of these pages takes a parser that builds a tree minutes, or all of its
// stack. That the test ends is part of what it tests.
func TestHostilePagesAreReadInOnePass(t *testing.T) {
	t.Parallel()
	numbered := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, body := range []string{
		strings.Repeat("<div class=a>", 20_000) + strings.Repeat("</i>", 20_000),
		strings.Repeat("<div class=a>x", 10_000) + strings.Repeat("</div>", 10_000),
		strings.Repeat("<div><p>", 10_000) + strings.Repeat("</div>", 10_000),
		numbered("<html a%d>", 10_000),
		numbered("<x%d>", 10_000),
		"<a " + numbered("a%d=b ", 10_000) + ">",
		strings.Repeat("<", 100_000), strings.Repeat("<!--", 20_000), strings.Repeat("&amp", 20_000),
		strings.Repeat("<script>", 20_000), strings.Repeat("<table><a>", 10_000),
	} {
		got, _ := evaluate(t, `[{"type":"dom_contains","text":"Hello","selector":".a"},{"type":"dom_contains","text":"Hello"}]`, page(body))
		require.False(t, got)
	}
}
