package natsconf

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files anew")

// TestGolden: the files of a small cluster, and those of the servers that deploy/nats shows, are
// byte for byte as they are stored. The accounts that deploy/nats shows are as of the last -update:
// they grow with every bucket.
func TestGolden(t *testing.T) {
	t.Parallel()
	single := state{
		Plan:    Plan{Servers: []Server{{"n1", "10.0.0.1", 4222, 6222}}, Partitions: 1, Store: 1 << 30},
		Users:   map[string]string{"egress": "UE", "ingress": "UI", "provisioner": "UP", "serve": "US", "system": "UY", "worker": "UW"},
		Tenants: []tenant{{"a.b", "UO", "UA"}, {"c", "UO2", "UA2"}},
	}
	three := single
	three.Servers = []Server{{"n1", "nats.example.com", 4222, 6222}, {"n2", "::1", 4223, 6223}, {"n3", "127.0.0.1", 4224, 6224}}
	files := map[string]string{
		"testdata/single.conf": serverConf(single.Plan, single.Servers[0], "/etc/a b"), "testdata/first.conf": serverConf(three.Plan, three.Servers[0], "/x"),
		"testdata/second.conf": serverConf(three.Plan, three.Servers[1], "/y"), "testdata/accounts.conf": accountsConf(single),
	}
	shown := filepath.Join("..", "..", "..", "deploy", "nats")
	s, err := readState(shown)
	require.NoError(t, err)
	for _, server := range s.Servers {
		files[filepath.Join(shown, "servers", server.Name, "nats.conf")] = serverConf(s.Plan, server, s.At)
	}
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(shown, "accounts.conf"), []byte(accountsConf(s)), plain))
	}
	for file, text := range files {
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text), plain))
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(have), "%s is old: go test ./internal/broker/natsconf -run Golden -update", file)
	}
}
