//go:build e2e

package corpus_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// gitSurface are the rows of whoever speaks git's protocol.
const gitSurface = "git-smart-http"

// What rows of git assert. Of each of them, whatever it says, it holds that no child
// and no half of anything is left, and that the repositories are as they were
// unless the row says that its branch moved.
const (
	assertChildGone   = "git child exits; no zombie"
	errPacketToo      = "also acceptable: 200 with ERR pkt"
	assertNoFilter    = "capability absent"
	assertBounded     = "memory and disk bounded"
	assertRefKept     = "ref unchanged"
	assertRefForm     = "check-ref-format"
	assertQuarantine  = "unpack error; objects quarantined"
	assertNothingLeft = "no partial ref; quarantine removed; child reaped"
	assertMoved       = "ref moved"
	assertLacks       = "lacks=" // the answer does not have this text
)

// What one row may take: of this process's memory, of that of any child, and of disk.
const (
	mostHeap  = 128 << 20
	mostChild = 512 << 20
	mostDisk  = 1 << 20
)

// git sends a row about git, once for each body that it stands for.
func (r *inboundRow) git(t *testing.T, g *gateway) {
	t.Helper()
	own := r.errand(t, g)
	store := g.gitStore(t)
	r.head(t, g, 0) // makes what it names
	bodies := r.bodies(t, g)
	before, size := store.state(), store.size()
	peak := func() int64 { return 0 }
	if strings.Contains(r.Assert, assertBounded) {
		peak = watchChildren()
	}
	for _, body := range bodies {
		began := grown()
		h := r.exchange(t, g, body)
		r.judge(t, g, h, began)
		r.gitAssertions(t, g, h, body)
		r.told(t, g, h)
		assert.Less(t, grown()-began, uint64(mostHeap), "bytes taken from the heap, kept or not")
		store.quiet(t)
		if strings.Contains(r.Assert, assertMoved) {
			assert.Equal(t, body.tip, g.view(t, "tasks_token", own.ID).Head)
			before, size = store.state(), store.size()
			continue
		}
		assert.Equal(t, before, store.state(), "the repositories")
		if strings.Contains(h.body, "unpack ok") {
			size = store.size() // git keeps objects that are fine, whatever it thinks of the update
		} else if body.tip != "" && body.tip != own.head && body.tip != gitkit.Zero {
			assert.False(t, store.has(t, body.tip), "what was refused is in a repository")
			assert.Less(t, store.size(), size+mostDisk, "the disk")
		}
	}
	assert.Less(t, peak(), int64(mostChild), "the memory of a child")
	r.hushed(t, g)
}

// exchange sends one body, or as much of it as the row lets out.
func (r *inboundRow) exchange(t *testing.T, g *gateway, body gitBody) heard {
	t.Helper()
	if r.Method == methodRaw {
		return g.send(t, g.fill(t, r, r.Raw))
	}
	c := g.dial(t)
	all := io.MultiReader(strings.NewReader(r.head(t, g, body.size)), body.wire(r.Headers["Transfer-Encoding"] != nil))
	if r.Disconnect > 0 {
		_, err := io.CopyN(c, all, int64(len(r.head(t, g, body.size)))+r.Disconnect)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		return heard{closed: true}
	}
	go func() { _, _ = io.Copy(c, all) }() // ends with the connection
	h := hear(t, c, r.Method)
	require.NoError(t, c.Close())
	return h
}

// gitAssertions are what only rows of git say.
func (r *inboundRow) gitAssertions(t *testing.T, g *gateway, h heard, body gitBody) {
	t.Helper()
	has := func(s string) bool { return strings.Contains(r.Assert, s) }
	if has(errPacketToo) && h.status == http.StatusOK {
		assert.Contains(t, h.body, "ERR ")
	}
	if has(assertNoFilter) {
		assert.NotContains(t, h.body, "PACK", "%s: the filter was obeyed", body.name)
		if h.status == http.StatusOK {
			assert.Contains(t, h.body, "ERR ", body.name)
		}
	}
	if has(assertQuarantine) {
		assert.Regexp(t, `unpack [^\n]*[^k\n]\n`, h.body, "%s: git's word on the objects", body.name)
		assert.NotContains(t, h.body, "unpack ok", body.name)
		assert.Contains(t, h.body, "ng "+schemas.RefOf(r.own.Branch), body.name)
	}
	if text, ok := strings.CutPrefix(r.Assert, assertLacks); ok {
		assert.NotContains(t, h.body, g.fill(t, r, text))
	}
	if has(assertNothingLeft) {
		assert.Equal(t, []string{string(schemas.GitIncomplete)}, r.results(t, g), "the record of the push")
	}
	if h.status == http.StatusOK && r.Code != "" {
		r.refused(t, g, h)
	}
}

// refused holds a push that is refused in an answer of 200 against the row's code:
// its client reads the reason, and the evidence has the code.
func (r *inboundRow) refused(t *testing.T, g *gateway, h heard) {
	t.Helper()
	_, err := gitwire.Demux(strings.NewReader(h.body), true, nil)
	var said *gitwire.RemoteError
	if assert.ErrorAs(t, err, &said, "%q", cut(h.body)) {
		assert.Contains(t, said.Text, r.Code)
	}
	results := r.results(t, g)
	require.NotEmpty(t, results)
	for _, result := range results {
		assert.Equal(t, r.Code, result, "the record of the push")
	}
}

// results are those of the pushes to the row's task, once there is one.
func (r *inboundRow) results(t *testing.T, g *gateway) []string {
	t.Helper()
	var all []string
	require.Eventually(t, func() bool {
		all = nil
		for _, a := range evidence[schemas.PushAudit](t, g, "", schemas.EvidencePush) {
			if a.TaskID == r.own.ID {
				all = append(all, a.Result)
			}
		}
		return len(all) > 0
	}, 30*time.Second, 50*time.Millisecond, "no record of the push")
	return all
}

// gitBody is one body of a request to git.
type gitBody struct {
	name string // which of several it is
	data io.Reader
	size int64
	tip  string // what a push is to leave the branch at
}

func wireOf(data []byte) gitBody { return gitBody{data: bytes.NewReader(data), size: int64(len(data))} }

// wire is the body as it goes out.
func (b gitBody) wire(chunked bool) io.Reader {
	if !chunked {
		return b.data
	}
	r, w := io.Pipe()
	go func() {
		piece := make([]byte, 64<<10)
		for {
			n, err := b.data.Read(piece)
			if n > 0 {
				_, _ = fmt.Fprintf(w, "%x\r\n", n)
				_, _ = w.Write(piece[:n])
				if _, err := io.WriteString(w, "\r\n"); err != nil {
					return
				}
			}
			if err != nil {
				_, _ = io.WriteString(w, "0\r\n\r\n")
				_ = w.Close()
				return
			}
		}
	}()
	return r
}
