package app

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func wordOf(node string, done bool, version string) policyWord {
	return policyWord{schemas.NodeReload{Node: node, Role: "worker", Version: version}, done}
}

// TestGather waits for whoever has said to be there, and for nobody longer than it takes.
func TestGather(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		say  func(words chan<- policyWord)
		want []string
		took time.Duration
	}{
		"nobody": {func(chan<- policyWord) {}, []string{}, calling},
		"all are quick": {func(words chan<- policyWord) {
			for _, node := range []string{"b", "a"} {
				words <- wordOf(node, false, "")
				words <- wordOf(node, true, "v1")
			}
		}, []string{"a v1 ", "b v1 "}, calling},
		"one is slow": {func(words chan<- policyWord) {
			words <- wordOf("a", false, "")
			time.Sleep(7 * time.Second)
			words <- wordOf("a", true, "v2")
		}, []string{"a v2 "}, 7 * time.Second},
		"one dies": {func(words chan<- policyWord) {
			words <- wordOf("a", false, "")
			words <- wordOf("b", true, "v2") // its first word was lost, or comes late
			words <- wordOf("b", false, "")
		}, []string{"a  it has not said in time what it did", "b v2 "}, telling},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				words, start := make(chan policyWord), time.Now()
				go tt.say(words)
				got := []string{}
				for _, n := range gather(t.Context(), words) {
					got = append(got, n.Node+" "+n.Version+" "+n.Error)
				}
				assert.Equal(t, tt.want, got)
				assert.Equal(t, tt.took, time.Since(start))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.Empty(t, gather(ctx, make(chan policyWord)))
		require.Equal(t, time.Second, time.Since(start))
	})
}

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
