package plans_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/processors/plans"
)

// The expected texts are those of Python 3.11's urllib.parse.
func TestFinalURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, params, want string }{
		{"http://h", `{}`, "http://h"},
		{"http://h", `{"a":1}`, "http://h?a=1"},
		{"HTTP://H:80/A", `{}`, "http://H:80/A"},
		{"http://h/a?", `{}`, "http://h/a"},
		{"http://h/a#", `{}`, "http://h/a"},
		{"http://h/a?b=2&a&b=1&c=", `{"b":3}`, "http://h/a?b=2&a=&b=1&c=&b=3"},
		{"http://h/a?&&x", `{}`, "http://h/a?x="},
		{"http://h/a?=v&=", `{}`, "http://h/a?=v&="},
		{"http://h/a?b=1#frag?x", `{"c":"d e"}`, "http://h/a?b=1&c=d+e#frag?x"},
		{"http://h/a%2Fb/%7E?q=a%2Bb+c%20d", `{}`, "http://h/a%2Fb/%7E?q=a%2Bb+c+d"},
		{"http://h/?q=~-._*/:;,'()!", `{}`, "http://h/?q=~-._%2A%2F%3A%3B%2C%27%28%29%21"},
		{"http://h/?q=%zz%4&%", `{}`, "http://h/?q=%25zz%254&%25="},
		{"http://h/?q=é%C3%A9", `{"ü":"€"}`, "http://h/?q=%C3%A9%C3%A9&%C3%BC=%E2%82%AC"},
		{"http://h/?q=%ff", `{}`, "http://h/?q=%EF%BF%BD"},
		{"http://h/?q=%E2%82", `{}`, "http://h/?q=%EF%BF%BD"},
		{"http://h/?q=%E2%82é", `{}`, "http://h/?q=%EF%BF%BD%C3%A9"},
		{"http://h/?q=%F0%9F%98a%ED%A0%80", `{}`, "http://h/?q=%EF%BF%BDa%EF%BF%BD%EF%BF%BD%EF%BF%BD"},
		{"http://h/", `{"b":1,"a":2,"b":3}`, "http://h/?b=3&a=2"},
		{"http://h/", `{"t":true,"f":false,"n":null}`, "http://h/?t=True&f=False&n=None"},
		{"http://h/", `{"a":0,"b":-0,"c":-0.0,"d":1.0,"e":100.00}`, "http://h/?a=0&b=0&c=-0.0&d=1.0&e=100.0"},
		{"http://h/", `{"a":123456789012345678901234567890}`, "http://h/?a=123456789012345678901234567890"},
		{"http://h/", `{"a":1e15,"b":1e16,"c":123456789012345680.0,"d":0.0001,"e":0.00001}`, "http://h/?a=1000000000000000.0&b=1e%2B16&c=1.2345678901234568e%2B17&d=0.0001&e=1e-05"},
		{"http://h/", `{"a":0.1,"b":1E400,"c":-1e400,"d":5e-324,"e":0.30000000000000004}`, "http://h/?a=0.1&b=inf&c=-inf&d=5e-324&e=0.30000000000000004"},
		{"http://h/", `{"a":[1,"x",null,true,[2.5]],"b":{"k":"it's"},"c":[],"d":{}}`, "http://h/?a=%5B1%2C+%27x%27%2C+None%2C+True%2C+%5B2.5%5D%5D&b=%7B%27k%27%3A+%22it%27s%22%7D&c=%5B%5D&d=%7B%7D"},
		{"http://h/", `{"a":["a'b\"c","\n\t\\","\u0001\u007f\u00a0é\u200b\ud83d\ude00"]}`, "http://h/?a=%5B%27a%5C%27b%22c%27%2C+%27%5Cn%5Ct%5C%5C%27%2C+%27%5Cx01%5Cx7f%5Cxa0%C3%A9%5Cu200b%F0%9F%98%80%27%5D"},
	}
	for _, tt := range tests {
		raw := `{"url":` + quoted(t, tt.url) + `,"params":` + tt.params + `,"allowlist_key":"k"}`
		_, view := translate(t, raw)
		require.Equal(t, tt.want, view.URL, raw)
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	return string(raw)
}

func TestAFragmentIsNotSent(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, sent, shown string }{
		{"http://h/a#f", "http://h/a", "http://h/a#f"},
		{"http://h?x=1#f", "http://h?x=1", "http://h?x=1#f"},
		{"http://h/a#f#g", "http://h/a", "http://h/a#f#g"},
		{"http://h#.evil.com/", "http://h#.evil.com/", "http://h#.evil.com/"}, // for policy to refuse
		{"http://h/a\t#f", "http://h/a\t", "http://h/a\t#f"},                  // nothing else is mended
	}
	for _, tt := range tests {
		call, view := translate(t, `{"url":`+quoted(t, tt.url)+`,"allowlist_key":"k"}`)
		require.Equal(t, tt.sent, call.URL)
		require.Equal(t, tt.shown, view.URL)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, want string }{
		{"http://h/a/b", "GET http://h/a/b?"},
		{"http://h", "GET http://h/?"},
		{"http://h:8080?b=1&a=2&b=3", "GET http://h:8080/?a,b"},
		{"http://h/a%2Fb?x=secret#frag", "GET http://h/a%2Fb?x"},
		{"http://h/?b+c=1&%C3%A9=2&a", "GET http://h/?a,b c,é"},
		{"http://h/?=1&a", "GET http://h/?,a"},
		{"http://user:pw@h/a", "GET http://h/a?"},
		{"http://a@b@h/", "GET http://h/?"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, plans.Fingerprint("GET", tt.url))
	}
	_, view := translate(t, `{"url":"http://h/a?z=1","params":{"y":"secret"},"method":"patch","allowlist_key":"k"}`)
	require.Equal(t, "PATCH http://h/a?y,z", view.Fingerprint)
}
