//go:build e2e

package integration_test

import (
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

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// TestACrowdThatLeavesAtOnce: whoever leaves a stream that is to be canceled with it, and
// whoever cancels one, does not wait for a worker that writes fifty times a second.
func TestACrowdThatLeavesAtOnce(t *testing.T) { //nolint:paralleltest // its load is the point
	const crowd = 20
	for name, tc := range map[string]struct { //nolint:paralleltest // as above
		disconnect string
		leave      func(ctx context.Context, w *weir, id string, body io.Closer) error
	}{
		"by leaving": {schemas.DisconnectCancel, func(_ context.Context, _ *weir, _ string, body io.Closer) error { return body.Close() }},
		"by asking": {schemas.DisconnectContinue, func(ctx context.Context, w *weir, id string, _ io.Closer) error {
			resp, said, err := w.try(ctx, http.MethodPost, "/v1/actions/"+id+"/cancel", "")
			if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
				err = fmt.Errorf("%s: %s", resp.Status, said)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			provider := llm.New(t, llm.Config{Default: llm.Act{Pace: &llm.Pace{Chunks: 50 * 300, Every: 20 * time.Millisecond, Text: "a token or two"}}})
			w := serveChat(t, t.TempDir(), chatConfig(t, provider, fmt.Sprintf("  m: {url: %q}\n", provider.URL())), "--log-level", "error", "--durability", "process")
			var ids [crowd]string
			var bodies [crowd]io.Closer
			require.NoError(t, atOnce(crowd, func(i int) (err error) {
				ids[i], bodies[i], err = listen(t.Context(), w, tc.disconnect)
				return err
			}))
			require.NoError(t, atOnce(crowd, func(i int) error { return tc.leave(t.Context(), w, ids[i], bodies[i]) }))
			provider.WaitIdle()
			for _, r := range provider.Ledger() {
				require.True(t, r.Cut())
			}
			require.NoError(t, atOnce(crowd, func(i int) error { return canceled(t.Context(), w, ids[i]) }))
			for _, body := range bodies {
				_ = body.Close()
			}
		})
	}
}

// listen opens a stream and reads its first two hundred chunks, so that its history
// takes a while to be read.
func listen(ctx context.Context, w *weir, disconnect string) (id string, body io.Closer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+schemas.RouteChat, strings.NewReader(chatBody("m", true, "")))
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(schemas.HeaderOnDisconnect, disconnect)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", nil, err
	}
	if _, err = io.CopyN(io.Discard, resp.Body, 60<<10); err != nil {
		_ = resp.Body.Close()
		return "", nil, fmt.Errorf("%s: %w", resp.Status, err)
	}
	return resp.Header.Get(schemas.HeaderGeneration), resp.Body, nil
}

// canceled waits until an action has ended, and reports whether it was canceled.
func canceled(ctx context.Context, w *weir, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		_, body, err := w.try(ctx, http.MethodGet, "/v1/actions/"+id, "")
		if err != nil {
			return err
		}
		var view schemas.ActionView
		if err := json.Unmarshal([]byte(body), &view); err != nil {
			return err
		}
		switch string(view.Status) {
		case string(schemas.OutcomeCanceled):
			return nil
		case string(schemas.EventAccepted), string(schemas.EventStarted), string(schemas.EventWaiting):
		default:
			return fmt.Errorf("%s: %s", id, view.Status)
		}
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
