package egress_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// heard is what a client has of a stream that was cut: the data of its events that came
// whole, and the id of the last that has one.
func heard(wire string) (data []string, last string) {
	for {
		frame, rest, whole := strings.Cut(wire, "\n\n")
		if !whole {
			return data, last
		}
		for line := range strings.SplitSeq(frame, "\n") {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				last = id
			}
			if d, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, d)
			}
		}
		wire = rest
	}
}

// TestAStreamIsCutAtEveryByte and gone on with: each piece comes once, also those of
// events with many chunks, which two choices in turns make.
func TestAStreamIsCutAtEveryByte(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(chatRef("a"))
	h.attempt(st)
	n := 0
	for _, many := range []int{1, 12, 2, 3} {
		var chunks []string
		for range many {
			chunks = append(chunks, fmt.Sprintf(`{"i":%d,"t":"%d\n"}`, n%2, n))
			n++
		}
		h.delta(st, chunks...)
	}
	h.append(st, schemas.Event{Type: schemas.EventDelta, Data: json.RawMessage(`{"chunks": [{"odd": 1}, {"odd": 2}]}`)})
	h.settle(st, said)
	ask := func(id string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteChat, http.NoBody)
		if id != "" {
			r.Header.Set("Last-Event-ID", id)
		}
		behind, err := h.room.ResumeChat(r)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		h.room.Chat(w, r, chatRef("a"), receipt("a", true), true, behind, -1, nil)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	whole := ask("")
	all, _ := heard(whole)
	require.Len(t, all, n+3)
	rest := map[string][]string{}
	for cut := range len(whole) + 1 {
		before, last := heard(whole[:cut])
		if _, asked := rest[last]; !asked {
			rest[last], _ = heard(ask(last))
		}
		if len(before) == len(all) {
			require.Equal(t, []string{"[DONE]"}, rest[last])
			continue
		}
		require.Equal(t, all, append(before, rest[last]...), "cut at byte %d, behind %q", cut, last)
	}
	require.Len(t, rest, len(all)+1, "each piece has an id")
}

func TestWhereACompletionGoesOn(t *testing.T) {
	t.Parallel()
	h := build(t)
	for id, want := range map[string]schemas.ChatPlace{"": {}, "7": {Seq: 7}, "7.2": {Seq: 7, Chunk: 2}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteChat, http.NoBody)
		r.Header.Set("Last-Event-ID", id)
		got, err := h.room.ResumeChat(r)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, ids := range [][]string{{"7.0"}, {"x"}, {"7", "8"}, {"7.1", "7.1"}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteChat, http.NoBody)
		r.Header["Last-Event-Id"] = ids
		_, err := h.room.ResumeChat(r)
		require.ErrorContains(t, err, "INVALID_REQUEST")
	}
	// No other surface knows such a place.
	h.claim(chatRef("a"))
	require.Equal(t, http.StatusBadRequest, h.get("/v1/actions/a/events", "Last-Event-ID", "7.1").Code)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/actions/a/events?after=7.1").Code)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteRunStream, http.NoBody)
	r.Header.Set("Last-Event-ID", "7.1")
	_, err := h.room.Resume(r)
	require.ErrorContains(t, err, "INVALID_REQUEST")
}

func TestAStreamThatCannotBegin(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(chatRef("a"))
	h.delta(st, `{"c":1}`, `{"c":2}`)
	first := st.Seq
	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1}})
	over := h.claim(chatRef("over"))
	h.settle(over, broken)
	later := over.Seq
	for i := 0; later == over.Seq; i++ { // others go on in its part of the log
		if id := fmt.Sprint("other.", i); layout.Partition("acme", id) == layout.Partition("acme", "over") {
			later = h.claim(chatRef(id)).Seq
		}
	}
	for name, tc := range map[string]struct {
		talk
		status int
		code   string
	}{
		"no action":      {talk{id: "other", duplicate: true}, http.StatusNotFound, "NOT_FOUND"},
		"beyond":         {talk{id: "a", duplicate: true, after: st.Seq + 1000}, http.StatusBadRequest, "INVALID_REQUEST"},
		"no such chunk":  {talk{id: "a", duplicate: true, after: st.Seq, chunk: 2}, http.StatusBadRequest, "INVALID_REQUEST"},
		"the last chunk": {talk{id: "a", duplicate: true, after: first, chunk: 2}, http.StatusBadRequest, "INVALID_REQUEST"},
		"many chunks":    {talk{id: "a", duplicate: true, after: first, chunk: 1 << 30}, http.StatusBadRequest, "INVALID_REQUEST"},
		"no chunks":      {talk{id: "a", duplicate: true, after: first - 1, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"to come":        {talk{id: "a", duplicate: true, after: st.Seq + 1, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"in its end":     {talk{id: "over", duplicate: true, after: over.Seq, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"past its end":   {talk{id: "over", duplicate: true, after: over.Seq + 1, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"behind its end": {talk{id: "over", duplicate: true, after: later}, http.StatusBadRequest, "INVALID_REQUEST"},
	} {
		w := h.talked(tc.talk)
		require.Equal(t, tc.status, w.Code, name)
		require.Contains(t, w.Body.String(), `"status":`+strconv.Itoa(tc.status), name)
		require.Contains(t, w.Body.String(), `"code":"`+tc.code+`"`, name)
		if tc.after > 0 {
			require.Contains(t, w.Body.String(), "Last-Event-ID", name)
		}
	}
	require.Equal(t, "data: [DONE]\n\n", h.talked(talk{id: "over", duplicate: true, after: over.Seq}).Body.String())
}
