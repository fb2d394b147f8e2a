package stream

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

func TestSwiftReadsWhatAWorkerWrites(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.EventType{schemas.EventDelta, schemas.EventProgress} {
		for _, at := range []time.Time{time.Unix(1, 0).UTC(), time.Unix(1700000000, 123456789).UTC(), time.Unix(5, 0).In(time.FixedZone("", 3600))} {
			data, err := ledger.Encode(schemas.Event{V: schemas.EventVersion, N: 7, Type: kind, Time: at, Data: json.RawMessage(`{"a":["}\"{",{}]}`)})
			require.NoError(t, err)
			got, ok := swift(data)
			require.True(t, ok, string(data))
			want, err := ledger.Decode(data)
			require.NoError(t, err)
			require.True(t, want.Time.Equal(got.Time))
			got.Time = want.Time
			require.Equal(t, want, got)
		}
	}
}

func TestSwiftLeavesTheRest(t *testing.T) {
	t.Parallel()
	const good = `{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":{}}`
	_, ok := swift([]byte(good))
	require.True(t, ok)
	for _, data := range []string{
		``, `{}`, `null`, good + ` `, good[:len(good)-1],
		`{"v":2,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":{}}`,
		`{"v":1,"n":0,"type":"delta","time":"2026-01-02T03:04:05Z","data":{}}`,
		`{"v":1,"n":-1,"type":"delta","time":"2026-01-02T03:04:05Z","data":{}}`,
		`{"v":1,"n":7,"type":"settled","time":"2026-01-02T03:04:05Z","data":{}}`,
		`{"v":1,"n":7,"type":"delta","time":"yesterday","data":{}}`,
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z"}`,
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":[1]}`,
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":{"a":"}`,
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":{},"settled":{}}`,
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","first":true,"data":{}}`,
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":{},"first":true}`,
	} {
		_, ok := swift([]byte(data))
		require.False(t, ok, data)
	}
}

// FuzzSwift holds the swift way against the other for every record that both can read.
func FuzzSwift(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05Z","data":{"chunks":[{"a":"\"}"}]}}`,
		`{"v":1,"n":7,"type":"progress","time":"2026-01-02T03:04:05.123456789+01:00","data":{}}`,
		`{"v":1,"n":07,"type":"delta","time":"2026-01-02T03:04:05,1Z","data":{}}`, `{"v":1,"n":`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := swift(data)
		want, err := ledger.Decode(data)
		if !ok || err != nil {
			return
		}
		require.True(t, want.Time.Equal(got.Time))
		got.Time = want.Time
		require.Equal(t, want, got)
	})
}

func TestSwiftAllocatesNothing(t *testing.T) { //nolint:paralleltest // other tests' allocations would be counted
	data := []byte(`{"v":1,"n":7,"type":"delta","time":"2026-01-02T03:04:05.5Z","data":{"chunks":[{"a":"b"}]}}`)
	require.Zero(t, testing.AllocsPerRun(100, func() { swift(data) }))
}
