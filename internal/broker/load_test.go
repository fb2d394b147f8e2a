package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/ledger"
	"weir/schemas"
)

// BenchmarkLoad reads back an action that has many progress events, as a worker
// that takes it over and whoever asks for its status do.
func BenchmarkLoad(b *testing.B) {
	s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Layout: layout, Durability: schemas.DurabilityProcess})
	require.NoError(b, err)
	defer func() { _ = s.Stop() }()
	br, err := Open(b.Context(), Config{Server: s, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(b, err)
	defer br.Close(context.Background())
	l := ledger.New(br, layout, nil)
	for _, events := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("events-%d", events), func(b *testing.B) {
			now := time.Now().UTC()
			st, _, err := l.Claim(b.Context(), schemas.Action{
				ID: strconv.Itoa(events), Tenant: "t", Kind: schemas.KindRun, Fingerprint: "f", AcceptedAt: now, Deadline: now.Add(time.Hour), Payload: json.RawMessage(`{}`),
			})
			require.NoError(b, err)
			data := json.RawMessage(`{"name":"token","data":{"text":"lorem ipsum dolor sit amet"}}`)
			for range events {
				require.NoError(b, l.Append(b.Context(), st, schemas.Event{Type: schemas.EventProgress, Data: data}))
			}
			b.ReportAllocs()
			for b.Loop() {
				read, err := l.Load(b.Context(), st.Ref)
				require.NoError(b, err)
				require.Equal(b, events, read.Progress)
			}
		})
	}
}
