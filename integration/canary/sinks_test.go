//go:build e2e

package canary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/telemetry"
	"weir/schemas"
)

// running are the sinks that are read while the program runs.
func (h *house) running() []sink {
	h.t.Helper()
	_, metrics := h.admin.send(http.MethodGet, "/metrics", "")
	var goroutines bytes.Buffer
	for _, how := range []int{1, 2} {
		require.NoError(h.t, pprof.Lookup("goroutine").WriteTo(&goroutines, how))
	}
	return []sink{
		{name: "metrics", data: []byte(metrics)},
		{name: "goroutines", data: goroutines.Bytes()},
		{name: "arguments of processes", data: arguments(h.t)},
		{name: "processes while they ran", data: h.sampled.seen.Bytes()},
		{name: "changes of tasks", data: h.updates()},
		{name: "temporary files", data: temporary(h.t)},
		{name: "evidence", data: h.evidence()},
		{name: "dead letters", data: h.deadLetters()},
	}
}

// after are the sinks that are read when it has stopped.
func (h *house) after() []sink {
	h.t.Helper()
	h.stop()
	h.sealKey()
	spans, strange := h.spans.data(h.t)
	assert.Empty(h.t, strange, "what is of no closed set in spans")
	sinks := []sink{
		{name: "log", data: h.log.Bytes()},
		{name: "spans", data: spans},
		{name: "answers to a stranger", data: h.stranger.seen.Bytes()},
		{name: "answers to nobody", data: h.nobody.seen.Bytes()},
		{name: "answers to their owner", data: h.owner.seen.Bytes(), owner: true},
		{name: "names of files", data: fileNames(h.t, h.dir)},
		{name: "files", data: files(h.t, h.dir), owner: true},
	}
	return append(sinks, stored(h.t, h.dir)...)
}

// evidence is what the owner's records say beside what they are there for.
func (h *house) evidence() []byte {
	h.t.Helper()
	var rest bytes.Buffer
	records := 0
	pages(h, "/v1/evidence?limit=500", func(r json.RawMessage) {
		records++
		rest.Write(beyond(h.t, r))
	})
	require.Positive(h.t, records)
	return rest.Bytes()
}

// pages reads a list of the owner's to its end.
func pages[T any](h *house, path string, item func(T)) {
	h.t.Helper()
	for next := path; next != ""; {
		status, text := h.read(next)
		require.Equal(h.t, http.StatusOK, status, text)
		var page schemas.Page[T]
		require.NoError(h.t, json.Unmarshal([]byte(text), &page), text)
		for _, it := range page.Items {
			item(it)
		}
		if next = page.Next; next != "" {
			next = path + "&cursor=" + url.QueryEscape(page.Next)
		}
	}
}

func (h *house) read(path string) (int, string) {
	resp, text := h.owner.send(http.MethodGet, path, "", "Accept", "application/json")
	return resp.StatusCode, text
}

func (h *house) deadLetters() []byte {
	h.t.Helper()
	_, text := h.owner.send(http.MethodGet, "/v1/dead-letters?limit=500", "")
	require.Contains(h.t, text, `"reason"`)
	return []byte(text)
}

// stored are the names and headers of everything on the streams, and of what
// lies on them all that has no right to content.
func stored(tb testing.TB, dir string) []sink {
	tb.Helper()
	var names, subjects, headers, keys, evidence, dead, budgets, values bytes.Buffer
	// Without a limit the client gives a whole list five seconds, with all that is done
	// for each of its items.
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	open(tb, dir, func(js jetstream.JetStream) {
		streams := js.ListStreams(ctx)
		for info := range streams.Info() {
			name := info.Config.Name
			noteJSON(tb, &names, info)
			s, err := js.Stream(ctx, name)
			require.NoError(tb, err)
			consumers := s.ListConsumers(ctx)
			for c := range consumers.Info() {
				noteJSON(tb, &names, c)
			}
			require.NoError(tb, consumers.Err())
			for seq := info.State.FirstSeq; seq != 0 && seq <= info.State.LastSeq; seq++ {
				m, err := s.GetMsg(ctx, seq)
				if err != nil {
					require.ErrorIs(tb, err, jetstream.ErrMsgNotFound)
					continue
				}
				into := &subjects
				if strings.HasPrefix(name, "KV_") || strings.HasPrefix(name, "OBJ_") {
					into = &keys
				}
				fmt.Fprintln(into, m.Subject)
				_ = http.Header(m.Header).Write(&headers) // to memory: cannot fail
				switch name {
				case schemas.EvidenceStream:
					evidence.Write(beyond(tb, m.Data))
				case schemas.DeadStream:
					dead.Write(without(tb, m.Data, "data"))
				case "KV_" + schemas.BudgetBucket:
					budgets.Write(append(m.Data, '\n'))
				default:
					values.Write(m.Data)
					values.WriteByte('\n')
				}
			}
		}
		require.NoError(tb, streams.Err())
	})
	return []sink{
		{name: "names of streams and consumers", data: names.Bytes()},
		{name: "subjects", data: subjects.Bytes()},
		{name: "headers of messages", data: headers.Bytes()},
		{name: "keys of values", data: keys.Bytes()},
		{name: "stored evidence", data: evidence.Bytes()},
		{name: "stored dead letters", data: dead.Bytes()},
		{name: "stored accounts of budgets", data: budgets.Bytes()},
		{name: "index", data: indexFile(tb, dir)},
		// The log and the bodies are the owner's content. Of secrets there is nothing.
		{name: "stored values", data: values.Bytes(), owner: true},
	}
}

// indexFile is the file behind lists, and what stands beside it; nothing where nobody has
// asked for a list.
func indexFile(tb testing.TB, dir string) (all []byte) {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "index", "*"))
	require.NoError(tb, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(tb, err)
		all = append(all, data...)
	}
	return all
}

// open opens the store of a program that has stopped.
func open(tb testing.TB, dir string, look func(jetstream.JetStream)) {
	tb.Helper()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layoutOf(tb, dir), Durability: schemas.DurabilityProcess})
	require.NoError(tb, err)
	defer func() { assert.NoError(tb, server.Stop()) }()
	nc, err := server.Connect(nats.Timeout(10 * time.Second))
	require.NoError(tb, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(tb, err)
	look(js)
}

// layoutOf reads how the log was cut.
func layoutOf(tb testing.TB, dir string) (l schemas.Layout) {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "weir.json"))
	require.NoError(tb, err)
	var marker struct {
		Partitions int `json:"partitions"`
		Lanes      int `json:"lanes"`
	}
	require.NoError(tb, json.Unmarshal(raw, &marker))
	return schemas.Layout{Partitions: marker.Partitions, Lanes: marker.Lanes}
}

func noteJSON(tb testing.TB, b *bytes.Buffer, v any) {
	tb.Helper()
	raw, err := json.Marshal(v)
	require.NoError(tb, err)
	b.Write(raw)
	b.WriteByte('\n')
}

// arguments are those of this process and of its children: what `ps` shows.
func arguments(tb testing.TB) []byte {
	tb.Helper()
	all := []byte(strings.Join(os.Args, "\x00"))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid())) // where there is no /proc, there are none
	for _, list := range tasks {
		text, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(text)) {
			line, _ := os.ReadFile("/proc/" + child + "/cmdline") // it may be gone
			all = append(append(all, '\n'), line...)
		}
	}
	return all
}

// temporary are the files that were left where temporary files go. One of our
// own shows that it is the right place.
func temporary(tb testing.TB) []byte {
	tb.Helper()
	f, err := os.CreateTemp("", "control-") //nolint:usetesting // where the program's own would land
	require.NoError(tb, err)
	_, err = f.WriteString("control")
	require.NoError(tb, err)
	require.NoError(tb, f.Close())
	return append(fileNames(tb, os.TempDir()), files(tb, os.TempDir())...)
}

func fileNames(tb testing.TB, dir string) []byte {
	tb.Helper()
	var b bytes.Buffer
	require.NoError(tb, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		fmt.Fprintln(&b, strings.TrimPrefix(path, dir))
		return passing(err)
	}))
	return b.Bytes()
}

// files is what all files hold, but for the one that holds a token by design.
func files(tb testing.TB, dir string) []byte {
	tb.Helper()
	var b bytes.Buffer
	require.NoError(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "admin.token" {
			return passing(err)
		}
		raw, err := os.ReadFile(path)
		b.Write(raw)
		b.WriteByte('\n')
		return passing(err)
	}))
	return b.Bytes()
}

// passing forgives a file that is gone by the time it is read.
func passing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// checkLog is the positive check: whatever a line has, it is of the closed set.
func checkLog(log []byte) []error {
	var bad []error
	for line := range bytes.Lines(log) {
		if err := telemetry.CheckLine(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			bad = append(bad, err)
		}
	}
	return bad
}
