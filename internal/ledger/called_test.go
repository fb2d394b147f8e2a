package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

func TestCallOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"https://Api.Example.com:8443/V1/Orders?a=1#f": {"api.example.com:8443", "/V1/Orders"},
		"http://h.example":         {"h.example", "/"},
		"http://h.example?a=/b":    {"h.example", "/"},
		"http://u:p@h.example/a@b": {"h.example", "/a@b"},
		"http://u:p@x@h.example/":  {"h.example", "/"},
		"http://u:p@/a":            {"", ""},
		"http://[::1]:80/a%2fb":    {"[::1]", "/a%2fb"},
		"/agents/run/sync":         {"", ""},
		"h.example/a":              {"", ""},
		"a?b=http://h.example/":    {"", ""},
		"":                         {"", ""},

		// A part of a credential, if it has a ? or #, stands where the host ends.
		"http://u:p?x@h.example/": {"", ""},
		"http://u:p#x@h.example/": {"", ""},
		"http://u#p@h.example/":   {"", ""},
		"http://u p@h.example/":   {"", ""},

		"http://" + strings.Repeat("h.", 200) + "example/": {"", ""},
	} {
		require.Equal(t, schemas.Called{Method: "GET", Host: want[0], Path: want[1]}, ledger.CallOf("GET", url), url)
	}
	require.Empty(t, ledger.CallOf("secret", "").Method)
	long := ledger.CallOf("GET", "http://h.example/"+strings.Repeat("%E2", 400)).Path
	require.Equal(t, "/"+strings.Repeat("%E2", 170)+"%", long)
}

// TestCalledOfAState: the call is the same whether the payload lies on the log or apart.
func TestCalledOfAState(t *testing.T) {
	t.Parallel()
	call := schemas.Called{Method: "PUT", Host: "h.example", Path: "/a"}
	plan := schemas.Called{Method: "GET", Host: "h.example", Path: "/a", Calls: 2}
	for name, c := range map[string]struct {
		action schemas.Action
		want   schemas.Called
	}{
		"http":      {schemas.Action{Kind: schemas.KindHTTP, Payload: []byte(`{"method":"PUT","url":"http://h.example/a?b"}`)}, call},
		"run":       {schemas.Action{Kind: schemas.KindRun, Payload: []byte(`{"call":{"method":"PUT","url":"http://h.example/a?b"}}`)}, call},
		"plan":      {schemas.Action{Kind: schemas.KindPlan, Payload: []byte(`{"artifact:proposed.plan":{"decisions":[{"target_state":{"url":"http://h.example/a"}},{}]}}`)}, plan},
		"a run's":   {schemas.Action{Kind: schemas.KindRun, Payload: []byte(`{"plan":{"artifact:proposed.plan":{"decisions":[{"target_state":{"method":"get","url":"http://h.example/a"}},1]}}}`)}, plan},
		"no calls":  {schemas.Action{Kind: schemas.KindPlan, Payload: []byte(`{"artifact:proposed.plan":{"decisions":[]}}`)}, schemas.Called{}},
		"agent":     {schemas.Action{Kind: schemas.KindRun, Payload: []byte(`{"inputs":{"method":"PUT","url":"http://h.example/a"}}`)}, schemas.Called{}},
		"sensitive": {schemas.Action{Kind: schemas.KindRun, Sensitive: true, Payload: []byte(`{"call":{"method":"PUT","url":"http://h.example/a"}}`)}, schemas.Called{}},
		"task":      {schemas.Action{Kind: schemas.KindTask, Payload: []byte(`{"method":"PUT","url":"http://h.example/a"}`)}, schemas.Called{}},
		"repo":      {schemas.Action{Kind: schemas.KindRepo, Payload: []byte(`{"name":"r","import_url":"http://h.example/a"}`)}, schemas.Called{Path: "r"}},
		"damaged":   {schemas.Action{Kind: schemas.KindHTTP, Payload: []byte(`{"method":[`)}, schemas.Called{}},
	} {
		st := &ledger.State{Ref: schemas.Ref{Kind: c.action.Kind}, Action: c.action}
		require.Equal(t, c.want, st.Called(), name)
		st.Action.Called = ledger.CalledIn(c.action, string(c.action.Payload))
		st.Action.Payload, st.Action.PayloadBlob = nil, "blob"
		require.Equal(t, c.want, st.Called(), name)
	}
	push := &ledger.State{Ref: schemas.Ref{Kind: schemas.KindPush}, Action: schemas.Action{Kind: schemas.KindPush, Payload: []byte(`{"repo":"r","ref":"refs/heads/b"}`)}}
	require.Equal(t, schemas.Called{Path: "r refs/heads/b"}, push.Called(), "nothing was called yet")
	push.Action.Payload = []byte(`{"repo":"r","ref":"refs/heads/b","denied":"no"}`)
	require.Equal(t, schemas.Called{Path: "r"}, push.Called())
	push.Action.Payload = []byte(`{"repo":"r","ref":"refs/heads/b"}`)
	push.Attempts = []ledger.Attempt{{Attempt: schemas.Attempt{Method: "POST", URL: "http://u:p@h.example/r.git/git-receive-pack"}}}
	require.Equal(t, schemas.Called{Method: "POST", Host: "h.example", Path: "/r.git/git-receive-pack r refs/heads/b"}, push.Called())
}
