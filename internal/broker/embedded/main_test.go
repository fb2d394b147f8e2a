package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var layout = schemas.Layout{Partitions: 1}

// start runs a server that the test's end stops.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Layout == (schemas.Layout{}) {
		cfg.Layout = layout
	}
	s := must(Start(cfg))(t)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
