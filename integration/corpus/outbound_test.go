//go:build e2e

package corpus_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app/casefile"
	"weir/internal/jsonschema"
	"weir/internal/weirtest/upstream"
)

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
			mayRun(t, r.ID, r.lacks())
			var out bytes.Buffer
			sum, err := casefile.Run(bytes.NewReader(r.line), &out, options)
			require.NoError(t, err)
			assert.Equal(t, 1, sum.Passed, "%s expected %s %s: %s", r.Why, r.Expected, r.Code, out.String())
		})
	}
}

// TestOutboundAlone sends the rows that measure memory or a short time through a whole
// Weir, each with the process to itself.
func TestOutboundAlone(t *testing.T) { //nolint:paralleltest // as said
	authority := upstream.NewAuthority(t)
	for _, r := range readOutbound(t) { //nolint:paralleltest // as said
		if r.alone() {
			t.Run(r.ID, func(t *testing.T) {
				if r.asserts("max_rss_mb") {
					weigh(t, &r, authority)
					return
				}
				newLane(t, &r, authority).run(t, &r, newStage(t, &r, authority)).judge(t)
			})
		}
	}
}

// TestOutbound sends every other row through a whole Weir.
func TestOutbound(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	lanes := map[string][]*outboundRow{}
	for _, r := range readOutbound(t) {
		switch {
		case r.alone():
		case r.mayRun() && r.Static && !r.slow() && !r.asserts("rule"):
			key := string(mustEncode(t, r.Policy)) + itoa(r.ownPort())
			lanes[key] = append(lanes[key], &r)
		default:
			t.Run(r.ID, func(t *testing.T) {
				t.Parallel()
				mayRun(t, r.ID, r.lacks())
				switch {
				case r.asserts("rule"):
					ruled(t, &r, authority)
				case r.asserts("crash_at"):
					crash(t, &r, authority)
				default:
					newLane(t, &r, authority).run(t, &r, newStage(t, &r, authority)).judge(t)
				}
			})
		}
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
}

// mayRun reports whether the row is sent: it is not passed over, and lacks nothing.
func (r *outboundRow) mayRun() bool { return !isPassedOver(r.ID) && r.lacks() == "" }

// alone reports whether other rows beside this one would spoil what it measures.
func (r *outboundRow) alone() bool {
	return r.mayRun() && !r.asserts("rule") && (r.asserts("max_rss_mb") || r.tight() && (!r.Static || r.slow()))
}

// tight rows bound a time so short that other rows beside them could use it up.
func (r *outboundRow) tight() bool {
	var limit int
	return json.Unmarshal(r.Assert["max_wall_s"], &limit) == nil && limit < 10
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
