package outbound_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestQueryOfTheEntry: its parameters follow the caller's query, of which no byte
// is changed.
func TestQueryOfTheEntry(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, c := range []struct {
		target string
		query  []schemas.Header
		want   string
	}{
		{"/v1/x", nil, "/v1/x"},
		{"/v1/x", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?k=v"},
		{"/v1/x?", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?k=v"},
		{"/v1/x?a=1", []schemas.Header{{Name: "k", Value: "v"}, {Name: "l", Value: ""}}, "/v1/x?a=1&k=v&l="},
		{"/v1/x?a=1&", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?a=1&k=v"},
		{"/v1/x?a=?", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?a=?&k=v"},
		{"/v1/x?a=%2f%2F&&=+", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?a=%2f%2F&&=+&k=v"},
		{"/v1/x", []schemas.Header{{Name: "a b[]", Value: "p@ss &=+#?/%;é\n"}}, "/v1/x?a%20b%5B%5D=p%40ss%20%26%3D%2B%23%3F%2F%25%3B%C3%A9%0A"},
		{"/v1/x?a=1", []schemas.Header{{Name: "k", Value: string(all)}}, "/v1/x?a=1&k=" + strings.ReplaceAll(url.QueryEscape(string(all)), "+", "%20")},
	} {
		s := upstream.New(t)
		_, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
		err := both(t, client(t, cfg), "http://api.example.com"+c.target, outbound.Request{Query: c.query})
		require.NoError(t, err)
		got := s.Ledger()
		require.Len(t, got, 1)
		assert.Equal(t, c.want, got[0].Target)
		_, raw, _ := strings.Cut(got[0].Target, "?")
		values, err := url.ParseQuery(strings.ReplaceAll(raw, ";", "%3B"))
		require.NoError(t, err)
		for _, q := range c.query {
			assert.Equal(t, []string{q.Value}, values[q.Name], "read back by net/url")
		}
	}
}
