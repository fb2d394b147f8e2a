package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestTellReload has a line for each node, and says where they differ.
func TestTellReload(t *testing.T) {
	t.Parallel()
	for want, done := range map[string]schemas.Reload{
		"policy v2 is in force, in place of v1\n": {Version: "v2", Previous: "v1", Changed: true},
		"nothing changed: policy v1 is in force\nthat is node n: the others have files of their own, and --all asks each\n": {Version: "v1", Previous: "v1", Node: "n"},
		"egress a: nothing changed: policy v2 is in force\nworker b: policy v2 is in force, in place of v1\n": {Nodes: []schemas.NodeReload{
			{Node: "a", Role: "egress", Version: "v2", Previous: "v2"}, {Node: "b", Role: "worker", Version: "v2", Previous: "v1", Changed: true},
		}},
		"egress a: nothing changed: policy v2 is in force\nworker b: policy v1 is in force as before: nothing was changed: it is wrong\nthe 2 nodes do not have the same policy\n": {Nodes: []schemas.NodeReload{
			{Node: "a", Role: "egress", Version: "v2", Previous: "v2"}, {Node: "b", Role: "worker", Version: "v1", Error: "nothing was changed: it is wrong"},
		}},
		"worker b: it has not said in time what it did\nthe 1 nodes do not have the same policy\n": {Nodes: []schemas.NodeReload{
			{Node: "b", Role: "worker", Error: "it has not said in time what it did"},
		}},
	} {
		var out bytes.Buffer
		tellReload(&out, done)
		require.Equal(t, want, out.String())
	}
}
