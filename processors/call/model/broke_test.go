package model

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestBroke: what a provider said of its usage outlives a call that brings no reply.
func TestBroke(t *testing.T) {
	t.Parallel()
	const says = `data: {"choices":[{"index":0,"delta":{"content":"some text"}}]}` + "\n\n"
	const more = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}` + "\n\n"
	const failed = `data: {"error":{"message":"out of order","code":502}}` + "\n\n"
	const whole = `{"choices":[{"index":0,"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	enough := errors.New("enough")
	type testCase struct {
		parts []string
		ends  bool
		stops int // which chunk is not taken; 0: none
		total int64
		late  bool
		reply bool // there is one, and it tells
	}
	table.Bubble(t, map[string]testCase{
		"cut off":             {parts: []string{says, usage}, ends: true, total: 3},
		"told twice":          {parts: []string{says, usage, more, says}, ends: true, total: 8, late: true},
		"never told":          {parts: []string{says}, ends: true},
		"no chunk":            {parts: []string{says, usage, "data: {\n\n"}, ends: true, total: 3},
		"nobody takes more":   {parts: []string{says, usage, says, says}, stops: 3, total: 6, late: true},
		"a whole one, untold": {parts: []string{whole}, ends: true, stops: 1, total: 3},
		"its own error":       {parts: []string{says, usage, says, failed}, total: 6, late: true, reply: true},
		"complete":            {parts: []string{usage, firstEnds, "data: [DONE]\n\n"}, total: 3, reply: true},
	}, func(t *testing.T, tt testCase) {
		var broke *schemas.ChatUsage
		n := 0
		e := &exchange{voice: voice{&Adapter{cfg: Config{}.withDefaults()}, Talk{
			ID: "i", Stream: true, Broke: func(used *schemas.ChatUsage) { broke = used },
			Chunk: func(context.Context, Piece) error {
				if n++; n == tt.stops {
					return enough
				}
				return nil
			},
		}}}
		s := &slow{parts: tt.parts, ends: tt.ends, closed: make(chan struct{})}
		reply, err := (&listener{exchange: e, status: 200, stream: s}).listen(t.Context())
		told := Told{Usage: broke}
		if tt.reply {
			require.NoError(t, err)
			require.Nil(t, broke)
			require.NoError(t, json.Unmarshal(reply.Answer.Body, &told))
		} else {
			require.Error(t, err)
		}
		if tt.total == 0 {
			require.Nil(t, told.Usage)
			return
		}
		assert.Equal(t, []any{tt.total, tt.late}, []any{told.Usage.Total, told.Usage.Estimated})
	})
}

// TestALargeAnswer is cut off where it grows beyond all measure, however its provider cuts
// it; one that comes with many words around each of its own is not large.
func TestALargeAnswer(t *testing.T) {
	t.Parallel()
	chunk := func(text string, pad int) string {
		return `data: {"pad":"` + strings.Repeat("p", pad) + `","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
	}
	type testCase struct {
		event string
		times int
		code  schemas.Code
	}
	table.Run(t, map[string]testCase{
		"large":        {chunk(strings.Repeat("x", 100<<10), 0), 50, schemas.UpstreamTooLarge},
		"many pieces":  {chunk(strings.Repeat("x", 1<<10), 0), 5 << 10, schemas.UpstreamTooLarge},
		"not so large": {chunk(strings.Repeat("x", 100<<10), 0), 9, schemas.UpstreamTruncated},
		"wordy":        {chunk("x", 4<<10), 2 << 10, schemas.UpstreamTruncated},
	}, func(t *testing.T, tt testCase) {
		given := 0
		e := &exchange{voice: voice{&Adapter{cfg: Config{Answer: 1 << 20}.withDefaults()}, Talk{
			ID: "i", Stream: true, Chunk: func(_ context.Context, p Piece) error { given += len(p.Raw); return nil },
		}}}
		_, err := (&listener{exchange: e, status: 200, stream: &endless{left: tt.times, event: tt.event}}).listen(t.Context())
		require.Equal(t, tt.code, codeOf(err), "%v", err)
		if tt.code == schemas.UpstreamTooLarge {
			assert.Less(t, given, 2<<20)
		}
	})
}
