package settle_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/processors/settle"
	"weir/schemas"
)

// stack publishes without looking at ids, as the broker does beyond its window.
type stack struct{ log *memlog.Log }

func (s stack) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if _, err := s.log.Append(m.Context(), schemas.Append{Subject: topic, Data: m.Payload}); err != nil {
			return err
		}
	}
	return nil
}

func (stack) Close() error { return nil }

// TestAllIsRecalled: however many records an action has left, none is left twice.
func TestAllIsRecalled(t *testing.T) {
	t.Parallel()
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	l := ledger.New(log, layout, nil)
	r := settle.NewRecorder(stack{log}, log, telemetry.NewMetrics())
	st := claim(t, l, "a")
	const many = 10_050 // of three entries
	records := make([]schemas.Evidence, many)
	for i := range records {
		records[i] = schemas.Evidence{ID: "a." + strconv.Itoa(i), Tenant: "t", ActionID: "a", Kind: schemas.EvidenceTask, Entry: strconv.Itoa(i % 3), Payload: []byte("{}")}
	}
	require.NoError(t, r.Leave(t.Context(), st, records...))
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
	again, err := l.Load(t.Context(), st.Ref)
	require.NoError(t, err)
	fresh := schemas.Evidence{ID: "a.new", Tenant: "t", ActionID: "a", Kind: schemas.EvidenceTask, Payload: []byte("{}")}
	require.NoError(t, r.Leave(t.Context(), again, append(records[many-3:len(records):len(records)], fresh)...))
	stored, err := log.Range(t.Context(), schemas.EvidenceStream, schemas.EvidenceRoot+".>", 1, 2*many)
	require.NoError(t, err)
	require.Len(t, stored, many+1)
}
