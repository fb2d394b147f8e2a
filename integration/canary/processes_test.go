//go:build e2e

package canary_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/capture"
	"weir/schemas"
)

// sampler looks again and again at the processes below this one: what `ps` shows of
// them, and what they have of an environment.
type sampler struct {
	seen capture.Buffer
	once map[string]bool
	stop chan struct{}
	done chan struct{}
}

// sampling is how often it looks.
const sampling = 3 * time.Millisecond

func sample(t *testing.T) *sampler {
	t.Helper()
	s := &sampler{once: map[string]bool{}, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		next := time.NewTicker(sampling)
		defer next.Stop()
		for {
			s.look(os.Getpid())
			select {
			case <-next.C:
			case <-s.stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(s.stop); <-s.done })
	return s
}

// look notes what is new below a process. Any of it may be gone by then.
func (s *sampler) look(pid int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // where there is no /proc, there are none
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(text)) {
			for _, name := range []string{"cmdline", "environ"} {
				data, _ := os.ReadFile("/proc/" + child + "/" + name)
				// The git server of the test has an environment of its own.
				if bytes.Contains(data, []byte("GIT_PROJECT_ROOT=")) || s.once[string(data)] {
					continue
				}
				s.once[string(data)] = true
				fmt.Fprintf(&s.seen, "%s\n", bytes.ReplaceAll(data, []byte{0}, []byte{' '}))
			}
			var id int
			if _, err := fmt.Sscan(child, &id); err == nil {
				s.look(id)
			}
		}
	}
}

// observe follows the changes of tasks as an observer, who is no tenant.
func (h *house) observe() {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.dir, "nats-credentials.json"))
	require.NoError(h.t, err)
	var c struct {
		URL      string `json:"url"`
		User     string `json:"user"`
		Password string `json:"password"`
	}
	require.NoError(h.t, json.Unmarshal(raw, &c))
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Timeout(30*time.Second))
	require.NoError(h.t, err)
	_, err = nc.Subscribe(schemas.StatusRoot+".>", func(m *nats.Msg) {
		fmt.Fprintf(&h.told, "%s %v %s\n", m.Subject, m.Header, m.Data)
	})
	require.NoError(h.t, err)
	require.NoError(h.t, nc.Flush())
	h.t.Cleanup(nc.Close)
	h.heard = nc
}

// updates are all that observers were told until now.
func (h *house) updates() []byte {
	h.t.Helper()
	require.NoError(h.t, h.heard.Flush())
	return h.told.Bytes()
}
