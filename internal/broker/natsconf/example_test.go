package natsconf

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the example anew")

// TestExample: the servers that deploy/nats shows are what is written now. Who may do what there is
// as of the last -update: it grows with every bucket.
func TestExample(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "deploy", "nats")
	s, err := readState(dir)
	require.NoError(t, err)
	want := map[string]string{}
	for _, server := range s.Servers {
		want[filepath.Join("servers", server.Name, "nats.conf")] = serverConf(s.Plan, server, s.At)
	}
	if *update {
		require.NoError(t, write(filepath.Join(dir, "accounts.conf"), []byte(accountsConf(s)), plain))
	}
	for name, text := range want {
		file := filepath.Join(dir, name)
		if *update {
			require.NoError(t, write(file, []byte(text), plain))
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(have), "%s is old: go test ./internal/broker/natsconf -run Example -update", name)
	}
}
