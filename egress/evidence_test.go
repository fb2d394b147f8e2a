package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

func (h *house) evidence(tenant, kind, entry, action string) schemas.Evidence {
	h.t.Helper()
	e := schemas.Evidence{
		ID: fmt.Sprintf("%s-%s-%d", tenant, action, h.barrier.Add(1)), Time: time.Now().UTC(), Tenant: tenant,
		ActionID: action, Kind: kind, Entry: entry, Payload: json.RawMessage(`{"n":1.0}`),
	}
	data, err := ledger.Encode(e)
	require.NoError(h.t, err)
	_, err = h.log.Append(context.Background(), schemas.Append{Subject: schemas.EvidenceSubject(e), Data: data})
	require.NoError(h.t, err)
	return e
}

func TestEvidenceFilters(t *testing.T) {
	t.Parallel()
	h := build(t)
	a := h.evidence("acme", schemas.EvidenceConnector, "github", "x")
	h.evidence("other", schemas.EvidenceConnector, "github", "x")
	b := h.evidence("acme", schemas.EvidenceDecision, "host:localhost", "y")
	c := h.evidence("acme", schemas.EvidenceConnector, "github", "y")
	for query, want := range map[string][]schemas.Evidence{
		"":                              {a, b, c},
		"action_id=y":                   {b, c},
		"kind=builtin.http_connector":   {a, c},
		"entry=host:localhost":          {b},
		"entry=github&action_id=y":      {c},
		"action_id=nobody":              {},
		"since=1":                       {b, c},
		"since=0&limit=1000":            {a, b, c},
		"since=2000-01-01T00:00:00Z":    {a, b, c},
		"since=2999-01-01T00:00:00.5Z":  {},
		"since=4":                       {},
		"cursor=3":                      {c},
		"kind=weird*.>&action_id=x%3Ey": {},
	} {
		w := h.get("/v1/evidence?" + query)
		require.Equal(t, http.StatusOK, w.Code, query)
		p := decode[schemas.Page[schemas.Evidence]](t, w.Body)
		require.Len(t, p.Items, len(want), query)
		for i := range want {
			require.Equal(t, want[i].ID, p.Items[i].ID, query)
			require.Equal(t, `{"n":1.0}`, string(p.Items[i].Payload))
		}
	}
	for _, query := range []string{"since=yesterday", "since=-1", "since=99", "kind=", "kind=a&kind=b", "limit=0", "action_id=%00", "cursor=x"} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/evidence?"+query).Code, query)
	}
	require.Equal(t, http.StatusNotAcceptable, h.get("/v1/evidence", "Accept", "text/html").Code)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/evidence", "Last-Event-ID", "x").Code)
}

func TestEvidenceSinceATime(t *testing.T) {
	t.Parallel()
	h := build(t)
	var times []time.Time
	for range 40 {
		h.evidence("acme", schemas.EvidenceAttempt, "e", "a")
		rec, err := h.log.Last(t.Context(), schemas.EvidenceStream, schemas.EvidenceRoot+".>")
		require.NoError(t, err)
		times = append(times, rec.Time)
	}
	for i, at := range times {
		want := 0
		for _, other := range times {
			if !other.Before(at) {
				want++
			}
		}
		p := decode[schemas.Page[schemas.Evidence]](t, h.get("/v1/evidence?since="+at.Format(time.RFC3339Nano)).Body)
		require.Len(t, p.Items, want, "%d", i)
	}
}

func TestEvidencePages(t *testing.T) {
	t.Parallel()
	h := build(t)
	for i := range 150 {
		h.evidence("acme", schemas.EvidenceAttempt, "e", fmt.Sprint("a", i))
		h.evidence("other", schemas.EvidenceAttempt, "e", fmt.Sprint("a", i))
	}
	for _, limit := range []int{1, 7, 63, 64, 65, 150, 151} {
		var got []string
		next, pages := "0", 0
		for next != "" {
			p := decode[schemas.Page[schemas.Evidence]](t, h.get(fmt.Sprintf("/v1/evidence?limit=%d&since=%s", limit, next)).Body)
			for _, e := range p.Items {
				got = append(got, e.ActionID)
			}
			next = p.Next
			pages++
		}
		require.Len(t, got, 150)
		require.Equal(t, "a0", got[0])
		require.Equal(t, "a149", got[149])
		require.Equal(t, (150+limit-1)/limit, pages, "limit %d", limit)
	}
	h.log.Purge(schemas.EvidenceStream, 50)
	w := h.get("/v1/evidence?since=3")
	require.Equal(t, http.StatusGone, w.Code)
	require.Equal(t, "50", decode[schemas.Problem](t, w.Body).EarliestID)
	require.Equal(t, http.StatusOK, h.get("/v1/evidence?since=49").Code)
}

func TestEvidenceStream(t *testing.T) {
	t.Parallel()
	h := build(t)
	old := h.evidence("acme", schemas.EvidenceAttempt, "e", "a")
	open := func(after string) (next func() (id string, e schemas.Evidence)) {
		w := &sink{header: http.Header{}, got: make(chan string, 10)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/evidence?entry=e", http.NoBody)
		for name, value := range map[string]string{"Accept": "text/event-stream", "Authorization": "Bearer acme", "Last-Event-ID": after} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		go func() {
			defer close(done)
			h.engine.ServeHTTP(w, r)
		}()
		t.Cleanup(func() { cancel(); <-done })
		require.Equal(t, ":\n\n", <-w.got)
		return func() (id string, e schemas.Evidence) {
			frame := <-w.got
			_, data, _ := strings.Cut(strings.TrimSpace(frame), "\ndata: ")
			require.NoError(t, json.Unmarshal([]byte(data), &e), frame)
			return idOf(frame), e
		}
	}
	first := open("")
	id, e := first()
	require.Equal(t, old.ID, e.ID)
	h.evidence("other", schemas.EvidenceAttempt, "e", "a")
	h.evidence("acme", schemas.EvidenceAttempt, "not asked for", "a")
	second := h.evidence("acme", schemas.EvidenceAttempt, "e", "b")
	_, e = first()
	require.Equal(t, second.ID, e.ID)
	_, e = open(id)()
	require.Equal(t, second.ID, e.ID)
}

func TestEvidenceWrittenOnSeveralLinesStaysOneEvent(t *testing.T) {
	t.Parallel()
	h := build(t)
	e := schemas.Evidence{Tenant: "acme", Kind: "k", ActionID: "a"}
	_, err := h.log.Append(t.Context(), schemas.Append{
		Subject: schemas.EvidenceSubject(e), Data: []byte("{\"id\":\"1\",\n\n\"event\":\r\n\"x\"}"),
	})
	require.NoError(t, err)
	_, err = h.log.Append(t.Context(), schemas.Append{Subject: schemas.EvidenceSubject(e), Data: []byte("not\njson\n\nevent: x")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w := &sink{header: http.Header{}, got: make(chan string, 10)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/evidence", http.NoBody)
		r.Header.Set("Authorization", "Bearer acme")
		r.Header.Set("Accept", "text/event-stream")
		h.engine.ServeHTTP(w, r)
	}()
	require.Equal(t, ":\n\n", <-w.got)
	require.Equal(t, "id: 1\nevent: evidence\ndata: {\"id\":\"1\",\"event\":\"x\"}\n\n", <-w.got)
	cancel()
	<-done
	require.Len(t, decode[schemas.Page[json.RawMessage]](t, h.get("/v1/evidence").Body).Items, 1)
}

// sink is a response whose flushes a test reads.
type sink struct {
	header http.Header
	buf    strings.Builder
	got    chan string
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(p []byte) (int, error) { return s.buf.Write(p) }
func (s *sink) Flush() {
	s.got <- s.buf.String()
	s.buf.Reset()
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	h := build(t)
	for i, tenant := range []string{"acme", "other", "acme", "acme"} {
		d := schemas.DeadLetter{
			Time: time.Now().UTC(), Tenant: tenant, Kind: schemas.KindHTTP, ActionID: fmt.Sprint("a", i), Code: schemas.Poison,
			Reason: "the record is not an event", Subject: "weir.log.0", Sequence: 7, Data: []byte("secret"),
		}
		data, err := ledger.Encode(d)
		require.NoError(t, err)
		_, err = h.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(d), Data: data})
		require.NoError(t, err)
	}
	w := h.get("/v1/dead-letters?limit=2")
	require.NotContains(t, w.Body.String(), "weir.log")
	require.NotContains(t, w.Body.String(), "data")
	p := decode[schemas.Page[schemas.DeadLetterView]](t, w.Body)
	require.Len(t, p.Items, 2)
	require.Equal(t, "a2", p.Items[1].ActionID)
	require.Equal(t, schemas.Poison, p.Items[0].Code)
	p = decode[schemas.Page[schemas.DeadLetterView]](t, h.get("/v1/dead-letters?cursor="+p.Next).Body)
	require.Len(t, p.Items, 1)
	require.Empty(t, p.Next)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/dead-letters?cursor=x").Code)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/dead-letters?limit=x").Code)
}
