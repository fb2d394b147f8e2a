package passthrough_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

const (
	largeName = "00"
	largeBody = "the first half, and the second one"
)

// TestLargeBodies: a body that is stored apart is sent from there by each attempt. Of a damaged one, the
// target never gets the end.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	type testCase struct {
		method  string
		broken  int // attempts that find it damaged
		missing bool
		outcome schemas.Outcome
		code    schemas.Code
		heard   []string
	}
	const (
		whole = "34 " + largeBody + " <nil>"
		part  = "34  unexpected EOF" // the beginning is still in a buffer
	)
	table.Bubble(t, map[string]testCase{
		"whole":               {"POST", 0, false, schemas.OutcomeSucceeded, "", []string{whole}},
		"damaged, once":       {"POST", 9, false, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, []string{part}},
		"damaged":             {"PUT", 9, false, schemas.OutcomeFailed, schemas.RetriesExhausted, []string{part, part, part}},
		"damaged for a while": {"PUT", 1, false, schemas.OutcomeSucceeded, "", []string{part, whole}},
		"missing":             {"PUT", 0, true, schemas.OutcomeFailed, schemas.Poison, nil},
	}, func(t *testing.T, tt testCase) {
		h, opened := newEnv(t, &target{pieces: []string{"ok"}}), 0
		h.body = func(context.Context, string) (io.ReadCloser, int64, error) {
			if opened++; tt.missing {
				return nil, 0, fault.ErrNotFound
			}
			in := io.Reader(strings.NewReader(largeBody))
			if opened <= tt.broken+1 && tt.broken > 0 { // the first one is to see that it is there
				in = io.MultiReader(strings.NewReader("the first half"), iotest.ErrReader(errors.New("damaged")))
			}
			return io.NopCloser(in), int64(len(largeBody)), nil
		}
		harness.Claim(t, h.Ingress, schemas.Action{Kind: schemas.KindPassthrough, Class: policy.Class(tt.method, false, policy.Permit{})}, schemas.HTTPCall{
			Method: tt.method, URL: "http://up.example/x", AllowlistKey: "up", BodyBlob: largeName, BodyBytes: len(largeBody),
		})
		h.Advance(5 * time.Minute)
		e := harness.Load(t, h.Ingress, ref).Settled
		require.Equal(t, []any{tt.outcome, tt.code}, []any{e.Outcome, e.Code})
		h.mu.Lock()
		defer h.mu.Unlock()
		require.Equal(t, tt.heard, h.heard)
	})
}
