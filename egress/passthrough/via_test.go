package passthrough

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/internal/problem"
)

// TestLocated: no reference of a target leads its client to another part of this node.
func TestLocated(t *testing.T) {
	t.Parallel()
	const called, own = "http://api.example/v1/users?q=1", "weir.example:8092"
	for reference, want := range map[string]string{
		"/v1/me":                               "/via/e/v1/me",
		"/via/other/echo":                      "/via/e/via/other/echo",
		"/v1/execute":                          "/via/e/v1/execute",
		"me?a=b#c":                             "/via/e/v1/me?a=b#c",
		"../../../v1/actions":                  "/via/e/v1/actions",
		"?page=2":                              "/via/e/v1/users?page=2",
		"":                                     "/via/e/v1/users?q=1",
		"HTTP://API.example:80":                "/via/e/",
		"//api.example/x":                      "/via/e/x",
		"http://api.example:81/x":              "http://api.example:81/x",
		"https://api.example/x":                "https://api.example/x",
		"https://other.example/login?next=%2F": "https://other.example/login?next=%2F",
		"app://callback?code=1":                "app://callback?code=1",
		"/a|b?c={d}&e=100%":                    "/via/e/a%7Cb?c=%7Bd%7D&e=100%25",
		"/a%2Fb|c":                             "/via/e/a%2Fb%7Cc",
		"https://o.example/ü%2Fb":              "https://o.example/%C3%BC%2Fb",
		"/%2e%2e/%2e%2e/v1/execute":            "http://api.example/%2e%2e/%2e%2e/v1/execute",
		"/..;/v1/execute":                      "http://api.example/..;/v1/execute",
		`/x\..\..\v1\execute`:                  `http://api.example/x%5C..%5C..%5Cv1%5Cexecute`,
		"/x//y":                                "http://api.example/x//y",
		"http:/v1/execute":                     "",
		"http:v1/execute":                      "",
		"///v1/execute":                        "http://api.example///v1/execute",
		"/\t/weir.example:8092/v1/execute":     "",
		"/%zz":                                 "",
		"//weir.example:8092/v1/execute":       "",
		"//u@Weir.Example:8092/v1/execute":     "",
		"//weir.example.:8092/v1/execute":      "",
		"//0x7f000001:8092/v1/execute":         "",
		"http://weir.example:8092/via/o/x":     "",
		"http://weir.example:8092/via/e/../o":  "",
		"http://weir.example:8092/via/e/x":     "http://weir.example:8092/via/e/x",
	} {
		assert.Equal(t, want, located(&problem.Report{Entry: "e", Called: called}, own, reference), reference)
	}
}

// TestConfined: a cookie of a target is sent to its entry alone.
func TestConfined(t *testing.T) {
	t.Parallel()
	for cookie, want := range map[string]string{
		"a=1":        "a=1; Path=/via/e/v1",
		"a=1; Path=": "a=1; Path=/via/e/v1",
		"a=1; Path=/; Domain=api.example; Secure; HttpOnly; SameSite=Lax": "a=1; Secure; HttpOnly; SameSite=Lax; Path=/via/e",
		"a=b=c; domain=.example ;Max-Age=5;PATH = /v1/ ":                  "a=b=c;Max-Age=5; Path=/via/e/v1/",
		"a=1; Path=/x; Path=/y":                                           "a=1; Path=/via/e/y",
		"a=1; Path=relative":                                              "a=1; Path=/via/e/v1",
		"path=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Partitioned":      "path=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Partitioned; Path=/via/e/v1",
	} {
		assert.Equal(t, want, confined(&problem.Report{Entry: "e", Called: "http://api.example/v1/users?q=/x/"}, cookie), cookie)
	}
	assert.Equal(t, "a=1; Path=/via/e", confined(&problem.Report{Entry: "e", Called: "http://api.example/?q=/x/"}, "a=1"))
}
