package schemas_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

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
