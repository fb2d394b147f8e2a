//go:build e2e

package crash_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/failpoint"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// TestASuccessorSurvives kill -9 between its claim and its name in its predecessor's record, and
// before and after that: both actions end once and name each other.
func TestASuccessorSurvives(t *testing.T) {
	t.Parallel()
	for _, point := range []failpoint.Point{failpoint.Claimed, failpoint.Fetched, failpoint.Settling} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			dir := filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.WriteFile(dir+".yaml", []byte("agents:\n  DOWN: {url: http://127.0.0.1:1}\n"), 0o600))
			var n *node
			n = newNode(dir, dir+".yaml", "process", func() string {
				if n.reached("job~2") > 0 {
					return ""
				}
				return string(point) + "@job~2=kill"
			})
			go n.keep()
			t.Cleanup(func() { require.NoError(t, n.stop(context.Background())) })
			ask := func() (*http.Response, error) {
				base, err := n.base(ctx)
				if err != nil {
					return nil, err
				}
				resp, _, err := program.Ask(ctx, http.MethodPost, base+schemas.RouteRunSync, `{"request_id":"job","task_type":"DOWN"}`)
				return resp, err
			}
			first, err := ask()
			require.NoError(t, err)
			require.Equal(t, "job", first.Header.Get("Weir-Action-Id"))
			_, err = ask()
			require.Error(t, err, "the node dies over the second")
			require.NoError(t, n.await(ctx, func() bool { return n.kills == 1 && n.process != nil }))

			read := func(id string) (view schemas.ActionView, events string) {
				for view.Settled.IsZero() {
					base, err := n.base(ctx)
					require.NoError(t, err)
					_, body, err := program.Ask(ctx, http.MethodGet, base+"/v1/actions/"+id, "")
					require.NoError(t, err)
					require.NoError(t, json.Unmarshal([]byte(body), &view), body)
					require.NoError(t, pause(ctx))
					_, events, err = program.Ask(ctx, http.MethodGet, base+"/v1/actions/"+id+"/events?limit=1000", "", "Accept", "application/json")
					require.NoError(t, err)
				}
				return view, events
			}
			after, events := read("job~2")
			require.Equal(t, "job", after.Supersedes)
			require.Equal(t, 1, strings.Count(events, `"type":"settled"`))
			before, events := read("job")
			require.Equal(t, "job~2", before.SupersededBy)
			require.Equal(t, 1, strings.Count(events, `"type":"settled"`))
			require.Equal(t, 1, strings.Count(events, `"type":"superseded"`))
		})
	}
}
