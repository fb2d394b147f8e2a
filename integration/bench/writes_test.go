//go:build nightly

package bench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// TestFloorWritesWhatWeirWrites keeps the floor honest: for one call both leave the same
// records, in the same order, of about the same size. Where Weir comes to write fewer, the
// floor has to as well.
func TestFloorWritesWhatWeirWrites(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			upstream := newUpstream(t)
			body := fmt.Sprintf(`{"method":%q,"url":"%s/x","allowlist_key":"up"}`, method, upstream.URL)
			if method == http.MethodPost {
				body = fmt.Sprintf(`{"method":%q,"url":"%s/x","allowlist_key":"up","body":{"a":1}}`, method, upstream.URL)
			}
			nodeDir, floorDir := t.TempDir(), t.TempDir()
			node := startWeir(t, "weir", nodeDir, weirConfig(t, upstream.URL), "process")
			floor := start(t, floorRole, "floor", floorDir, "process", "all", method)
			for _, p := range []*process{node, floor} {
				_, err := closed(t.Context(), target{
					name: "one", method: http.MethodPost, url: p.URL + "/v1/execute", body: body, status: http.StatusOK,
				}, 1, limit{calls: 1})
				require.NoError(t, err)
				p.terminate(t)
			}
			wrote := written(t, nodeDir, schemas.LogStream(0), schemas.EvidenceStream)
			same := written(t, floorDir, floorStream, floorEvidence)
			require.Equal(t, kinds(wrote), kinds(same))
			for i, w := range wrote {
				require.InEpsilonf(t, w.size, same[i].size, 0.15, "the size of %s: Weir's is %d bytes", w.what, w.size)
			}
		})
	}
}

func kinds(all []write) (what []string) {
	for _, w := range all {
		what = append(what, w.what)
	}
	return what
}

// written reads what lies in a data directory, the log first.
func written(t *testing.T, dir, log, evidence string) (all []write) {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: floorLayout(), Durability: schemas.DurabilityProcess})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	nc, err := server.Connect()
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for _, name := range []string{log, evidence} {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		state := s.CachedInfo().State
		for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
			m, err := s.GetMsg(t.Context(), seq)
			require.NoError(t, err)
			var head struct {
				Type string `json:"type"`
			}
			require.NoError(t, json.Unmarshal(m.Data, &head))
			if name == evidence {
				head.Type = "evidence"
			}
			all = append(all, write{what: head.Type, size: len(m.Data), evidence: name == evidence})
		}
	}
	return all
}
