package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestValidModel(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"m", "openai/gpt-5", "accounts/fireworks/models/x", "m:free", "a@1+b", ".hidden", "~openai/gpt-latest", "~m",
		strings.Repeat("m", schemas.MaxModel),
	} {
		require.True(t, schemas.ValidModel(name), name)
	}
	for _, name := range []string{
		"", "/m", "m/", "a//b", "..", "a/../b", "https://h/m", "a?b", "a#b", "a b", "a\\b", "a%2fb", "a\nb", "a\x00", "é", "*", "a/*",
		"~", "~/m", "~../m", "~~m", "a/~b", "a~b", strings.Repeat("m", schemas.MaxModel+1),
	} {
		require.False(t, schemas.ValidModel(name), name)
	}
}

// TestChatModel: the name in an answer is a version of the one that was asked for, or
// stands nowhere but in the answer.
func TestChatModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, told, want string }{
		{"gpt-4o", "gpt-4o", "gpt-4o"},
		{"gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"openai/gpt-4o", "gpt-4o:1", "gpt-4o:1"},
		{"gpt-4o", "openai/gpt-4o", "gpt-4o"},
		{"gpt-4o", "gpt-4o-what-the-user-said", ""},
		{"gpt-4o", "gpt-4o-11111111111111111111", ""},
		{"gpt-4o", "other", ""},
		{"gpt-4o", "", ""},
		{"", "1", "1"},
	} {
		assert.Equal(t, c.want, schemas.ChatModel(c.sent, c.told), "%+v", c)
	}
}

func TestChatReason(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"stop", "other", "other", "other"},
		[]string{schemas.ChatReason("stop"), schemas.ChatReason("what the user said"), schemas.ChatReason(""), schemas.ChatReason("other")})
}

func TestReadEcho(t *testing.T) {
	t.Parallel()
	for inputs, want := range map[string]schemas.Echo{
		`{}`:                                   {Steps: 1},
		`{"steps":null,"interval_ms" : null}`:  {Steps: 1},
		`{"steps": 1000 ,"interval_ms":60000}`: {Steps: 1000, Interval: time.Minute},
		`{"interval_ms":-0}`:                   {Steps: 1},
		`{"Steps":"x","STEPS":[],"n":1e3}`:     {Steps: 1},
	} {
		got, err := schemas.ReadEcho(json.RawMessage(inputs))
		require.NoError(t, err, inputs)
		require.Equal(t, want, got, inputs)
	}
	for inputs, member := range map[string]string{
		`{"steps":0}`: "steps", `{"steps":1001}`: "steps", `{"steps":1.0}`: "steps", `{"steps":1e1}`: "steps",
		`{"steps":"1"}`: "steps", `{"steps":99999999999999999999}`: "steps", `{"steps":true}`: "steps",
		`{"interval_ms":-1}`: "interval_ms", `{"interval_ms":60001}`: "interval_ms", `{"interval_ms":1e3}`: "interval_ms", `{"interval_ms":{}}`: "interval_ms",
	} {
		_, err := schemas.ReadEcho(json.RawMessage(inputs))
		var refused *schemas.EchoError
		require.ErrorAs(t, err, &refused, inputs)
		require.Equal(t, member, refused.Member, inputs)
	}
	for _, inputs := range []string{`[]`, `1`, ``, `{`} {
		_, err := schemas.ReadEcho(json.RawMessage(inputs))
		require.Error(t, err, inputs)
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		count int
		per   time.Duration
	}{
		"10/s": {10, time.Second}, "600/m": {600, time.Minute}, "1000/h": {1000, time.Hour}, "999999999/s": {999999999, time.Second},
	} {
		count, per, ok := schemas.ParseRate(text)
		require.Equal(t, []any{want.count, want.per, true}, []any{count, per, ok}, text)
	}
	for _, text := range []string{"", "10", "/s", "0/s", "01/s", "-1/s", "+1/s", "1.5/s", "10/d", "10/S", "10/s ", " 10/s", "10//s", "1e3/s", "1000000000/s", "١/s"} {
		_, _, ok := schemas.ParseRate(text)
		require.False(t, ok, text)
	}
}

func TestValidRepoName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "0", "web", "web.app", "a-b_c.d", "git", "x.git.y", strings.Repeat("a", 100)} {
		require.True(t, schemas.ValidRepoName(name), name)
	}
	for _, name := range []string{
		"", ".", "..", "a..b", ".a", "a.", "-a", "_a", "A", "a/b", "a\\b", "a b", "a.git", "a.lock", "a\x00", "a%2e", "é", strings.Repeat("a", 101),
	} {
		require.False(t, schemas.ValidRepoName(name), name)
	}
}

func TestValidBranch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "main", "A/b.c_d-e", "release/1.x", "0199f0c2-a1d3-7c55-9b0e-2f4a6c8e0d13", "HEAD/a", "a-", strings.Repeat("b", schemas.MaxBranch)} {
		require.True(t, schemas.ValidBranch(name), name)
	}
	for _, name := range []string{
		"", "HEAD", "/a", "a/", "a//b", "a..b", ".a", "a/.b", "a.", "a./b", "-a", "a/-b", "a.lock", "a.lock/b", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b",
		"a\\b", "a@{b", "@", "a\nb", "é", strings.Repeat("b", schemas.MaxBranch+1),
	} {
		require.False(t, schemas.ValidBranch(name), name)
	}
	require.Equal(t, "refs/heads/a/b", schemas.RefOf("a/b"))
}

func TestRunRoute(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://a":                       "",
		"http://a/agents":                "",
		"http://a/my-agents/run":         "",
		"http://a/agents/run/sync/v2":    "",
		"http://a/agents/running":        "",
		"http://a/agents/run":            "/agents/run",
		"http://a/base/agents/run/":      "/agents/run",
		"http://a/agents/run/sync":       "/agents/run/sync",
		"http://a/agents/run/stream//":   "/agents/run/stream",
		"http://a/base/agents/run/sync/": "/agents/run/sync",
	} {
		require.Equal(t, want, schemas.RunRoute(url), url)
	}
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]struct {
		callers string
		n       int
		valid   bool
	}{
		"r-1": {"r-1", 1, true}, "r-1~2": {"r-1", 2, true}, "r-1~100": {"r-1", 100, true}, "": {"", 1, false},
		"r-1~1": {"r-1~1", 1, false}, "r-1~0": {"r-1~0", 1, false}, "r-1~101": {"r-1~101", 1, false}, "r-1~02": {"r-1~02", 1, false}, "r-1~+2": {"r-1~+2", 1, false},
		"r-1~": {"r-1~", 1, false}, "r-1~x": {"r-1~x", 1, false}, "r-1~2~3": {"r-1~2~3", 1, false}, "~2": {"", 2, false}, "r/1~2": {"r/1", 2, false},
	} {
		callers, n := schemas.Generation(id)
		require.Equal(t, want.callers, callers, id)
		require.Equal(t, want.n, n, id)
		require.Equal(t, want.valid, schemas.ValidActionID(id), id)
		require.False(t, schemas.ValidID(id) && n > 1, "no caller can give %s", id)
	}
	long := strings.Repeat("a", 128)
	require.True(t, schemas.ValidActionID(schemas.Successor(long, schemas.MaxGeneration)))
	require.False(t, schemas.ValidActionID(schemas.Successor(long+"a", 2)))
}

func TestValidTraceParent(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	assert.True(t, schemas.ValidTraceParent(good))
	for _, bad := range []string{
		"", good[1:], good + "0", strings.ToUpper(good), "01" + good[2:], strings.Replace(good, "-b", "_b", 1),
		strings.Replace(good, "a", "#", 1), strings.Replace(good, "a", "-", 1), strings.Repeat("-", len(good)),
	} {
		assert.False(t, schemas.ValidTraceParent(bad), bad)
	}
}
