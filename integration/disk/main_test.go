//go:build nightly

// Package disk_test runs the program on data directories that are full, slow, broken,
// damaged, or not for it.
//
// Only this suite shows what a device does that is full, slow or failing, and each kind of
// damage to the files of the data directory.
package disk_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/program"
)

var binary = program.Path(program.Weir)

// world is an upstream and a configuration that lets calls to it through.
type world struct {
	*callers.Target

	config string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Target: callers.NewTarget()}
	t.Cleanup(w.Close)
	var err error
	w.config, err = program.Config(t.TempDir(), w.URL, "")
	require.NoError(t, err)
	return w
}

// start runs the program until the test ends.
func (w *world) start(t *testing.T, data string, more ...string) *program.Program {
	t.Helper()
	p, err := program.Start(binary, data, append([]string{"--config", w.config, "--log-level", "error"}, more...)...)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// post asks for a POST with a body of so many bytes, and returns the answer.
func (w *world) post(ctx context.Context, p *program.Program, id string, size int) (status int, body string, err error) {
	text := fmt.Sprintf(`{"type":"Http","request_id":%q,"args":{"method":"POST","url":"%s/%s","body":{"x":%q}}}`, id, w.URL, id, strings.Repeat("x", size))
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	a, err := p.Client().Try(ctx, http.MethodPost, "/v1/execute", text)
	return a.Status, a.Body, err
}

// ok asks for a POST that succeeds.
func (w *world) ok(t *testing.T, p *program.Program, id string, size int) {
	t.Helper()
	status, body, err := w.post(t.Context(), p, id, size)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
}

// fill makes actions that succeed, and returns their ids.
func (w *world) fill(t *testing.T, p *program.Program, many, size int) (ids []string) {
	t.Helper()
	for i := range many {
		id := fmt.Sprintf("a%d", i)
		w.ok(t, p, id, size)
		ids = append(ids, id)
	}
	return ids
}

// found counts the actions that the program has as succeeded.
func found(t *testing.T, p *program.Program, ids []string) (n int) {
	t.Helper()
	for _, id := range ids {
		if strings.Contains(p.Client().Ask(t, http.MethodGet, "/v1/actions/"+id, "").Body, `"status":"succeeded"`) {
			n++
		}
	}
	return n
}

// count is how often a path was called.
func (w *world) count(id string) (n int) {
	for _, h := range w.Hits(id) {
		if h.Mark == id {
			n++
		}
	}
	return n
}

// once holds that each was called, and none a second time.
func (w *world) once(t *testing.T, ids []string) {
	t.Helper()
	for _, id := range ids {
		require.Equal(t, 1, w.count(id), id)
	}
}
