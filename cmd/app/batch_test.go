package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestBatch sends a batch through a whole node: each request is an action of its own, with its own
// evidence, and a repeat under the same key joins all of them.
func TestBatch(t *testing.T) {
	t.Parallel()
	a := openNode.node(t)
	var calls atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if strings.HasPrefix(r.URL.Path, "/404") {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, `{"path":"`+r.URL.Path+`"}`)
	}))
	t.Cleanup(target.Close)
	own, key := fresh("batch"), fresh("key")
	requests := []string{`{"type":"Http","args":{"method":"POST","url":"` + target.URL + `/post","body":{"n":1}},"request_id":"` + own + `"}`}
	for i := range 5 {
		requests = append(requests, fmt.Sprintf(`{"method":"GET","url":"%s/%d"}`, target.URL, i))
	}
	requests = append(requests, `{"method":"GET","url":"`+target.URL+`/404"}`, `{"method":"GET","url":"http://denied.example/"}`, `{"method":"GET"}`)
	body := `{"requests":[` + strings.Join(requests, ",") + `]}`
	text, _ := a.asks(t, http.StatusOK, http.MethodPost, "/v1/batch", body, "Idempotency-Key", key)
	var first, again schemas.BatchAnswer
	require.NoError(t, json.Unmarshal([]byte(text), &first))
	require.Len(t, first.Items, len(requests))
	require.Equal(t, own, first.Items[0].ActionID)
	for i, item := range first.Items[1:6] {
		require.Equal(t, http.StatusOK, item.Status)
		require.JSONEq(t, fmt.Sprintf(`{"path":"/%d"}`, i), string(item.Result.Body))
	}
	rest := first.Items[6:]
	require.Equal(t, []int{http.StatusBadGateway, http.StatusForbidden, http.StatusBadRequest}, []int{rest[0].Status, rest[1].Status, rest[2].Status})
	require.Equal(t, http.StatusNotFound, rest[0].Error.Status)
	require.Equal(t, schemas.DenyHost, rest[1].Error.Code)
	require.EqualValues(t, 7, calls.Load())

	text, _ = a.asks(t, http.StatusOK, http.MethodPost, "/v1/batch", body, "Idempotency-Key", key)
	require.NoError(t, json.Unmarshal([]byte(text), &again))
	require.EqualValues(t, 7, calls.Load(), "nothing is sent again")
	for i, item := range again.Items {
		require.Equal(t, first.Items[i].ActionID, item.ActionID)
		require.Equal(t, first.Items[i].Result, item.Result)
		require.Equal(t, item.ActionID != "" && i > 0, item.Replayed)
	}
	text, _ = a.asks(t, http.StatusOK, http.MethodGet, "/v1/evidence?action_id="+rest[1].ActionID, "")
	require.Contains(t, text, string(schemas.DenyHost))
}
