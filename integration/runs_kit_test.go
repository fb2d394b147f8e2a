//go:build e2e

package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/agent"
	"weir/schemas"
)

// agentsFile writes a configuration with agents, each by the first task type that
// the double serves. Each is asked for a stream, by whichever route its runs come.
func agentsFile(tb testing.TB, agents map[string]*agent.Agent) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	require.NoError(tb, os.WriteFile(path, []byte(agentsYAML(agents)), 0o600))
	return path
}

func agentsYAML(agents map[string]*agent.Agent) string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for taskType, a := range agents {
		fmt.Fprintf(&b, "  %s: {url: %q, mode: stream, concurrency: 256}\n", taskType, a.URL())
	}
	return b.String()
}

// frame is one whole event as it came over the wire.
type frame struct {
	id, name, text string
}

// frames are the whole events among the bytes of a stream, comments left out. What
// follows the last blank line is no event yet.
func frames(data []byte) []frame {
	var all []frame
	for {
		text, rest, whole := bytes.Cut(data, []byte("\n\n"))
		if !whole {
			return all
		}
		data = rest
		f := frame{text: string(text)}
		for line := range strings.SplitSeq(f.text, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "id":
				f.id = value
			case "event":
				f.name = value
			}
		}
		if f.id != "" || f.name != "" {
			all = append(all, f)
		}
	}
}

// ask is a request whose answer is a stream.
type ask struct {
	method, path, body string
	after              string // Last-Event-ID
}

// readStream returns the status and whatever came before the answer ended or was
// cut; cut says which of the two it was.
func readStream(ctx context.Context, client *http.Client, base string, a ask) (status int, data []byte, cut bool, err error) {
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, a.method, base+a.path, strings.NewReader(a.body))
	if err != nil {
		return 0, nil, false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.after != "" {
		req.Header.Set("Last-Event-ID", a.after)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, true, ctx.Err()
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(resp.Body)
	return resp.StatusCode, data, err != nil, ctx.Err()
}

// patiently asks again while the answer is that the log is away: on a busy machine the servers
// of a cluster may say so, and clients come again.
func patiently(ctx context.Context, ask func() (status int, err error)) error {
	for {
		status, err := ask()
		if err != nil || status != http.StatusServiceUnavailable {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runBody is a request for a run.
func runBody(id, taskType, inputs string) string {
	return fmt.Sprintf(`{"request_id":%q,"task_type":%q,"inputs":%s}`, id, taskType, inputs)
}

// logged are the events of an action as pages give them.
func logged(ctx context.Context, w *weir, id string) ([]schemas.EventView, error) {
	var all []schemas.EventView
	for after := "0"; after != ""; {
		var text string
		err := patiently(ctx, func() (status int, err error) {
			var resp *http.Response
			if resp, text, err = w.try(ctx, http.MethodGet, "/v1/actions/"+id+"/events?limit=1000&after="+after, "", "Accept", "application/json"); err != nil {
				return 0, err
			}
			if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
				return 0, fmt.Errorf("status %d: %s", resp.StatusCode, text)
			}
			return resp.StatusCode, nil
		})
		if err != nil {
			return nil, err
		}
		var page schemas.Page[schemas.EventView]
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		after = page.Next
		if n := len(all); n > 0 && all[n-1].Type == schemas.EventSettled {
			return all, nil
		}
	}
	return all, nil
}

// shownAs is the name of an event in the dialect of runs; none: it is not shown.
func shownAs(t schemas.EventType) string {
	switch t {
	case schemas.EventAccepted:
		return schemas.RunEventStarted
	case schemas.EventProgress:
		return schemas.RunEventProgress
	case schemas.EventSettled:
		return schemas.RunEventComplete
	default:
		return ""
	}
}

func seqText(seq uint64) string { return strconv.FormatUint(seq, 10) }

// readProgress reads a stream until so many progress events have come.
func readProgress(tb testing.TB, body io.Reader, n int) int {
	tb.Helper()
	seen := 0
	for e, err := range sse.Read(bufio.NewReader(body), nil) {
		require.NoError(tb, err)
		if e.Type == schemas.RunEventProgress {
			seen++
		}
		if seen == n {
			break
		}
	}
	return seen
}
