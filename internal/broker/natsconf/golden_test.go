package natsconf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGolden: the files of a small cluster are byte for byte as they are stored. Write them anew
// with -update.
func TestGolden(t *testing.T) {
	t.Parallel()
	single := state{
		Plan:    Plan{Servers: []Server{{"n1", "10.0.0.1", 4222, 6222}}, Partitions: 1, Store: 1 << 30},
		Users:   map[string]string{"egress": "UE", "ingress": "UI", "provisioner": "UP", "serve": "US", "system": "UY", "worker": "UW"},
		Tenants: []tenant{{"a.b", "UO", "UA"}, {"c", "UO2", "UA2"}},
	}
	three := single
	three.Servers = []Server{{"n1", "nats.example.com", 4222, 6222}, {"n2", "::1", 4223, 6223}, {"n3", "127.0.0.1", 4224, 6224}}
	for name, text := range map[string]string{
		"single.conf": serverConf(single.Plan, single.Servers[0], "/etc/a b"), "first.conf": serverConf(three.Plan, three.Servers[0], "/x"),
		"second.conf": serverConf(three.Plan, three.Servers[1], "/y"), "accounts.conf": accountsConf(single),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), text, name)
	}
}
