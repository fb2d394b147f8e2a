package callurl

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/internal/policy"
)

// TestEscaped: policy reads what fetch sends, and no more than that.
func TestEscaped(t *testing.T) {
	t.Parallel()
	const origin = "http://h.example"
	for url, want := range map[string]string{
		"":                      "",
		"/a?b=%41+c&d=%2f":      "/a?b=%41+c&d=%2f",
		"/\"<>^`{|}":            "/%22%3C%3E%5E%60%7B%7C%7D",
		"?\"<>^`{|}\\":          "?%22%3C%3E%5E%60%7B%7C%7D%5C",
		"/a?b=%&c=%4&d=%zz&e=%": "/a?b=%25&c=%254&d=%25zz&e=%25",
		"/a?b=%%41?c":           "/a?b=%25%41?c",
		"/a?b=%+1":              "/a?b=%25+1",
		"/ü?ü":                  "/%C3%BC?%C3%BC",
	} {
		got := Escaped(origin + url)
		assert.Equal(t, origin+want, got)
		_, ok := policy.Split(got, false)
		assert.True(t, ok, got)
	}
	for _, url := range []string{origin + `/a\b`, origin + "/a%zz", origin + "/a#b", origin + "/\xe9", "http://h{x/a", `http://h\x/a`, "/a{"} {
		_, ok := policy.Split(Escaped(url), false)
		assert.False(t, ok, url)
	}
}
