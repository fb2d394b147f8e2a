package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/weirtest/table"
	"weir/processors/call/dial"
	"weir/schemas"
)

// body is a stream whose Read a test writes.
type body struct{ dial.Stream }

func (body) ReadAllBy(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(raw)) > limit {
		return nil, &fault.Call{Code: schemas.UpstreamTooLarge, Sent: true}
	}
	return raw, err
}

func (body) Patience(time.Duration) {}

// slow is a stream of which each part takes its time, and which stays open behind them.
type slow struct {
	body
	parts  []string
	every  time.Duration
	ends   bool // it does not stay open
	closed chan struct{}
	wait   time.Duration // of a read
	once   sync.Once
	now    string // of a part
	grace  time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	if s.now == "" {
		var next, late <-chan time.Time // nothing more; no time limit
		if s.wait > 0 {
			late = time.After(s.wait)
		}
		switch {
		case len(s.parts) > 0:
			next = time.After(s.every)
		case s.ends:
			return 0, io.EOF
		}
		select {
		case <-next:
			s.now, s.parts = s.parts[0], s.parts[1:]
		case <-late:
			return 0, &fault.Call{Code: schemas.UpstreamTimeout, Sent: true}
		case <-s.closed:
			return 0, &fault.Call{Code: schemas.Canceled, Sent: true}
		}
	}
	n := copy(p, s.now)
	s.now = s.now[n:]
	return n, nil
}

func (s *slow) Patience(d time.Duration) { s.wait = d }

func (s *slow) Close() { s.once.Do(func() { close(s.closed) }) }

// decode has a decoder read a stream.
func decode(ctx context.Context, cfg Config, o CallOptions, s *redact.Scrubber, from dial.Stream) (response Response, err error) {
	if o.Chunk == nil {
		o.Chunk = func(context.Context, Piece) error { return nil }
	}
	answer := &dial.Answer{Stream: from, Response: outbound.Response{Status: 200}, Scrub: s, Asked: time.Now()}
	reply, err := (&decoder{Answer: answer, cfg: cfg.withDefaults(), options: o}).decode(ctx)
	if err == nil {
		err = json.Unmarshal(reply.Answer.Body, &response)
	}
	return response, err
}

// hear reads a stream that closes with its context, as one of a provider does.
func hear(ctx context.Context, choices int64, s *slow) (response Response, took time.Duration, err error) {
	s.closed = make(chan struct{})
	defer context.AfterFunc(ctx, s.Close)()
	start := time.Now()
	response, err = decode(ctx, Config{Grace: s.grace}, CallOptions{Options: completion.Options{ID: "i", Choices: choices}, Stream: true}, nil, s)
	return response, time.Since(start), err
}

func codeOf(err error) schemas.Code {
	if failed, ok := errors.AsType[*fault.Call](err); ok {
		return failed.Code
	}
	return ""
}

const (
	firstEnds  = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n"
	secondEnds = `data: {"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}` + "\n\n"
	usage      = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}` + "\n\n"
)

// TestEndOfChoices: an answer has as many choices as were asked for, unless its provider
// says that it is over.
func TestEndOfChoices(t *testing.T) {
	t.Parallel()
	type testCase struct {
		choices int64
		s       *slow
		code    schemas.Code
		took    time.Duration
		whole   string
	}
	table.Bubble(t, map[string]testCase{
		"one after the other, slowly": {2, &slow{parts: []string{firstEnds, secondEnds}, every: 20 * time.Second}, "", 45 * time.Second, `"b"`},
		"one is missing":              {2, &slow{parts: []string{firstEnds}, ends: true}, schemas.UpstreamTruncated, 0, ""},
		"one is missing, by its word": {2, &slow{parts: []string{firstEnds, "data: [DONE]\n\n"}}, "", 0, `"a"`},
		"more than were asked for":    {1, &slow{parts: []string{firstEnds, secondEnds}, every: time.Second, ends: true}, "", 2 * time.Second, `"b"`},
		"it waits for less":           {1, &slow{parts: []string{firstEnds}, grace: time.Second}, "", time.Second, `"a"`},
		"nobody has said how many":    {0, &slow{parts: []string{firstEnds}}, "", 5 * time.Second, `"a"`},
	}, func(t *testing.T, tt testCase) {
		response, took, err := hear(t.Context(), tt.choices, tt.s)
		assert.Equal(t, tt.took, took)
		require.Equal(t, tt.code, codeOf(err), "%v", err)
		assert.Contains(t, string(response.Completion), tt.whole)
	})
}

// TestACancelInTheGrace: what is stopped while the end of its stream is waited for is
// stopped, though every choice has ended; with the end of the wait it is a success.
func TestACancelInTheGrace(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]schemas.Code{2 * time.Second: schemas.Canceled, 6 * time.Second: ""} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			_, took, err := hear(ctx, 1, &slow{parts: []string{firstEnds}})
			require.Equal(t, want, codeOf(err), "%v", err)
			require.Equal(t, min(after, 5*time.Second), took)
		})
	}
}

// TestGraceGoesByBytes: an end that comes slowly is waited for, and one that does not
// come is not, whatever else does.
func TestGraceGoesByBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := []string{firstEnds, usage[:2], usage[2:40], usage[40:70], usage[70:], "data: [DONE]\n\n"}
		response, took, err := hear(t.Context(), 1, &slow{parts: parts, every: 4 * time.Second})
		require.NoError(t, err)
		require.NotNil(t, response.Usage)
		assert.EqualValues(t, 3, response.Usage.Total)
		assert.Equal(t, 24*time.Second, took)
	})
	synctest.Test(t, func(t *testing.T) {
		parts := []string{firstEnds}
		for range 1000 {
			parts = append(parts, ": still here\n\n")
		}
		response, took, err := hear(t.Context(), 1, &slow{parts: parts, every: 4 * time.Second})
		require.NoError(t, err)
		assert.NotNil(t, response.Completion)
		assert.Equal(t, 64*time.Second, took.Round(time.Millisecond), "four, and a minute")
	})
}

// endless gives one event again and again.
type endless struct {
	body
	event string
	left  int
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.event[e.at:])
	if e.at += n; e.at == len(e.event) {
		e.at, e.left = 0, e.left-1
	}
	return n, nil
}

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
		s := &slow{parts: tt.parts, ends: tt.ends, closed: make(chan struct{})}
		response, err := decode(t.Context(), Config{}, CallOptions{
			Options: completion.Options{ID: "i"}, Stream: true, Broke: func(used *schemas.ChatUsage) { broke = used },
			Chunk: func(context.Context, Piece) error {
				if n++; n == tt.stops {
					return enough
				}
				return nil
			},
		}, nil, s)
		require.Equal(t, tt.reply, err == nil, "%v", err)
		if tt.reply {
			require.Nil(t, broke)
		} else {
			response.Usage = broke
		}
		if tt.total == 0 {
			require.Nil(t, response.Usage)
			return
		}
		assert.Equal(t, []any{tt.total, tt.late}, []any{response.Usage.Total, response.Usage.Estimated})
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
		_, err := decode(t.Context(), Config{Answer: 1 << 20}, CallOptions{
			Options: completion.Options{ID: "i"}, Stream: true, Chunk: func(_ context.Context, p Piece) error { given += len(p.Raw); return nil },
		}, nil, &endless{left: tt.times, event: tt.event})
		require.Equal(t, tt.code, codeOf(err), "%v", err)
		if tt.code == schemas.UpstreamTooLarge {
			assert.Less(t, given, 2<<20)
		}
	})
}
