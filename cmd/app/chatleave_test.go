package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// busyNode is a node whose one model m streams fifty chunks a second, for minutes.
func busyNode(t *testing.T) (url string, provider *llm.Server) {
	t.Helper()
	provider = llm.New(t, llm.Config{Default: llm.Act{Pace: &llm.Pace{Chunks: 50 * 300, Every: 20 * time.Millisecond, Text: "a token or two"}}})
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\nlog: {durability: process}\ntelemetry: {log_level: error}\nmodels:\n  m: {url: %q}\n", t.TempDir(), provider.URL())
	cfg, err := config.Parse("test", []byte(text), nil, nil)
	require.NoError(t, err)
	a, err := New(t.Context(), Options{Config: cfg, Log: io.Discard})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	return a.URL(), provider
}

// listen opens a stream and reads its first chunks.
func listen(ctx context.Context, url, disconnect string) (id string, body io.Closer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+schemas.RouteChat, strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(schemas.HeaderOnDisconnect, disconnect)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", nil, err
	}
	lines := bufio.NewScanner(resp.Body)
	for range 450 { // a log that takes a while to be read
		if !lines.Scan() {
			_ = resp.Body.Close()
			return "", nil, fmt.Errorf("%s, and no chunks: %w", resp.Status, lines.Err())
		}
	}
	return resp.Header.Get(schemas.HeaderGeneration), resp.Body, nil
}

// TestACrowdThatLeavesAtOnce: whoever leaves a stream that is to be canceled with it, and
// whoever cancels one, does not wait for a worker that writes all the time.
func TestACrowdThatLeavesAtOnce(t *testing.T) { //nolint:paralleltest // its load is the point
	const crowd = 100
	for name, tc := range map[string]struct { //nolint:paralleltest // as above
		disconnect string
		leave      func(ctx context.Context, url, id string, body io.Closer) error
	}{
		"by leaving": {schemas.DisconnectCancel, func(_ context.Context, _, _ string, body io.Closer) error { return body.Close() }},
		"by asking": {schemas.DisconnectContinue, func(ctx context.Context, url, id string, body io.Closer) error {
			defer func() { _ = body.Close() }()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/actions/"+id+"/cancel", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
				return fmt.Errorf("%s: %s", resp.Status, said)
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url, provider := busyNode(t)
			ids, bodies := [crowd]string{}, [crowd]io.Closer{}
			require.NoError(t, atOnce(crowd, func(i int) (err error) {
				ids[i], bodies[i], err = listen(t.Context(), url, tc.disconnect)
				return err
			}))
			require.NoError(t, atOnce(crowd, func(i int) error { return tc.leave(t.Context(), url, ids[i], bodies[i]) }))
			provider.WaitIdle()
			for _, r := range provider.Ledger() {
				require.True(t, r.Cut())
			}
			for _, id := range ids {
				require.Equal(t, string(schemas.OutcomeCanceled), howItEnded(t, url, id))
			}
		})
	}
}

// atOnce does something so many times, all together.
func atOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// howItEnded waits for the end of an action, and says which it was.
func howItEnded(t *testing.T, url, id string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/actions/"+id+"/events", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	var end struct {
		Settled struct {
			Outcome string `json:"outcome"`
		} `json:"settled"`
	}
	for settled := false; lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && settled {
			require.NoError(t, json.Unmarshal([]byte(data), &end))
			break
		}
		settled = settled || lines.Text() == "event: settled"
	}
	return end.Settled.Outcome
}
