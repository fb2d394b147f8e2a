package corpus_test

import (
	"bytes"
	"encoding/json"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app/casefile"
	"weir/internal/jsonschema"
	"weir/internal/weirtest/upstream"
)

// pendingOutbound lists the rows that cannot run yet, by name.
const pendingOutbound = "testdata/pending_outbound.txt"

// runs says whether the harness has all that a row needs, or what is missing.
func (r *outboundRow) runs() string {
	if _, ok := behaviours(r.Upstream); !ok {
		return "the behaviour " + r.Upstream.Behaviour
	}
	for name := range r.Assert {
		if _, ok := outboundChecks[name]; !ok {
			return "the assertion " + name
		}
	}
	if point := text(r.Assert["crash_at"]); point != "" && crashPoints[point] == nil {
		return "the crash " + point
	}
	return ""
}

// TestOutboundIsWhole: each row runs, or is listed as one that cannot.
func TestOutboundIsWhole(t *testing.T) {
	t.Parallel()
	why := missing{}
	for _, r := range readOutbound(t) {
		why.add(t, r.ID, r.runs())
	}
	why.check(t, pendingOutbound, otherOutbound)
}

// TestOutboundStatic decides the rows that need no network as `weir policy
// test` does.
func TestOutboundStatic(t *testing.T) {
	t.Parallel()
	schemas := jsonschema.NewCache(jsonschema.CacheConfig{})
	options := casefile.Options{CheckSchema: func(doc json.RawMessage) error {
		_, err := schemas.Compile(doc)
		return err
	}}
	for _, r := range readOutbound(t) {
		if !r.Static {
			continue
		}
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			sum, err := casefile.Run(bytes.NewReader(r.line), &out, options)
			require.NoError(t, err)
			assert.Equal(t, 1, sum.Passed, "%s expected %s %s: %s", r.Why, r.Expected, r.Code, out.String())
		})
	}
}

// TestOutbound sends every row through a whole Weir. It is not parallel to
// others: it sets the environment, and some rows weigh what they cost.
func TestOutbound(t *testing.T) { //nolint:paralleltest,tparallel // as said
	trap := setTrap(t)
	authority := upstream.NewAuthority(t)
	lanes := map[string][]*outboundRow{}
	var heavy, alone, others []*outboundRow
	for _, r := range readOutbound(t) {
		switch {
		case r.runs() != "":
		case r.asserts("rule"):
			others = append(others, &r)
		case r.asserts("max_rss_mb"):
			heavy = append(heavy, &r)
		case r.Static && !r.slow():
			if len(r.Policy.SelfPorts)+len(r.Policy.SelfHosts) > 0 && r.Expected == "deny" {
				continue // the ports of a row are not those of the node; the case file decides
			}
			key := string(mustEncode(t, r.Policy))
			lanes[key] = append(lanes[key], &r)
		case r.tight(t):
			alone = append(alone, &r)
		default:
			others = append(others, &r)
		}
	}
	for _, r := range heavy {
		t.Run(r.ID, func(t *testing.T) { weigh(t, r, authority) })
	}
	for _, r := range alone {
		t.Run(r.ID, func(t *testing.T) {
			newLane(t, r, authority).run(t, r, newStage(t, r, authority)).judge(t)
		})
	}
	for _, r := range others {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			switch {
			case r.asserts("rule"):
				ruled(t, r, authority)
				return
			case r.asserts("crash_at"):
				crash(t, r, authority)
				return
			}
			newLane(t, r, authority).run(t, r, newStage(t, r, authority)).judge(t)
		})
	}
	for _, rows := range lanes {
		t.Run("wire", func(t *testing.T) {
			t.Parallel()
			l := newLane(t, rows[0], authority)
			for _, r := range rows {
				t.Run(r.ID, func(t *testing.T) { // one after the other
					l.run(t, r, newStage(t, r, authority)).judge(t)
				})
			}
		})
	}
	t.Cleanup(func() { assert.Zero(t, trap.Load(), "the proxy of the environment was asked") })
}

// tight rows bound a time so short that other rows beside them could use it up.
func (r *outboundRow) tight(t *testing.T) bool {
	t.Helper()
	return r.asserts("max_wall_s") && number(t, r.Assert["max_wall_s"]) < 10
}

// slow static rows wait for a resolver that does not answer.
func (r *outboundRow) slow() bool {
	for _, answers := range r.Resolver {
		for _, a := range answers {
			if slices.Contains(a, upstream.DNSTimeout) {
				return true
			}
		}
	}
	return false
}

// setTrap points every proxy variable at a listener that counts who comes.
func setTrap(t *testing.T) *atomic.Int64 {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var caught atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://"+listener.Addr().String())
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}
	return &caught
}
