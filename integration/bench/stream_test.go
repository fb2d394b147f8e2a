//go:build nightly

package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// tale is what a stream has: so many chunks, one every pace, or as fast as they go; none is a
// stream that begins, and is silent.
type tale struct {
	chunks int
	pace   time.Duration
}

func (t tale) String() string { return fmt.Sprintf("tale-%d-%d", t.chunks, t.pace.Milliseconds()) }

// dialect is a protocol whose streams are measured: what is asked, with an id and a tale, and
// what is answered. A chunk has the time at which it was written, in nanoseconds, and its turn.
type dialect struct{ name, route, ask, head, chunk, end string }

const chatHead = `data: {"id":"gen-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":[{"index":0,"delta":`

var (
	runs = dialect{
		name: "events of a run", route: schemas.RouteRunStream,
		ask:   `{"request_id":%q,"task_type":"BENCH","inputs":{"text":"%s"}}`,
		head:  "event: started\ndata: {\"request_id\":\"$ID\"}\n\n",
		chunk: "event: progress\ndata: {\"text\":\"@%d-%d of a token or two\"}\n\n",
		end:   "event: complete\ndata: {\"type\":\"final\",\"request_id\":\"$ID\",\"task_type\":\"BENCH\",\"status\":\"ok\",\"success\":true,\"outputs\":{}}\n\n",
	}
	chats = dialect{
		name: "chunks of a completion", route: schemas.RouteChat,
		ask:   `{"model":"bench","stream":true,"user":%q,"messages":[{"role":"user","content":"%s"}]}`,
		head:  chatHead + `{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
		chunk: chatHead + `{"content":"@%d-%d "},"finish_reason":null}]}` + "\n\n",
		end:   chatHead + `{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	}
	responses = dialect{
		name: "events of a response", route: schemas.RouteResponses,
		ask: `{"model":"bench","stream":true,"user":%q,"input":"%s"}`,
		head: typed("response.created", `"sequence_number":0,"response":{"id":"resp_bench","object":"response","status":"in_progress","output":[]}`) +
			typed("response.output_item.added", `"sequence_number":1,"output_index":0,"item":{"type":"message","id":"m1","role":"assistant","content":[]}`),
		chunk: typed("response.output_text.delta", `"item_id":"m1","output_index":0,"content_index":0,"delta":"@%d-%d "`),
		end:   typed("response.completed", `"response":{"id":"resp_bench","object":"response","status":"completed","output":[]}`),
	}
	messages = dialect{
		name: "events of a message", route: schemas.RouteMessages,
		ask: `{"model":"bench","stream":true,"max_tokens":100000,"metadata":{"user_id":%q},"messages":[{"role":"user","content":"%s"}]}`,
		head: typed("message_start", `"message":{"id":"msg_bench","type":"message","role":"assistant","content":[],"stop_reason":null}`) +
			typed("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`),
		chunk: typed("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"@%d-%d "}`),
		end:   typed("content_block_stop", `"index":0`) + typed("message_delta", `"delta":{"stop_reason":"end_turn"}`) + typed("message_stop", `"end":true`),
	}
)

// typed is an event that has its type as its name, and further members.
func typed(kind, members string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + members + "}\n\n"
}

// newTeller serves runs and completions with the tale that they ask for.
func newTeller(tb testing.TB) (url string) {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(tell))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

var (
	asksTale = regexp.MustCompile(`tale-(\d+)-(\d+)`)
	asksID   = regexp.MustCompile(`"request_id":"([^"]+)"`)
)

// tell is one stream.
func tell(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d, id := chats, ""
	for _, other := range []dialect{responses, messages} {
		if strings.HasSuffix(r.URL.Path, other.route) {
			d = other
		}
	}
	if m := asksID.FindSubmatch(body); m != nil {
		d, id = runs, string(m[1])
	}
	m := asksTale.FindSubmatch(body)
	if m == nil {
		http.Error(w, "no tale is asked for", http.StatusBadRequest)
		return
	}
	chunks, _ := strconv.Atoi(string(m[1]))
	pace, _ := time.ParseDuration(string(m[2]) + "ms")
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_, _ = io.WriteString(w, strings.ReplaceAll(d.head, "$ID", id))
	_ = out.Flush()
	if chunks == 0 {
		<-r.Context().Done()
		return
	}
	tick := time.NewTicker(max(pace, 1))
	defer tick.Stop()
	for turn := range chunks {
		if pace > 0 {
			<-tick.C
		}
		fmt.Fprintf(w, d.chunk, time.Now().UnixNano(), turn)
		if out.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, strings.ReplaceAll(d.end, "$ID", id))
}

// stream is one reader of a tale: how long each chunk took, and the first of the answer.
type stream struct {
	tale

	took  []time.Duration
	first time.Duration
	err   error
}

var errTurn = errors.New("a chunk is missing, came twice or out of turn")

// read reads to the end. Each chunk must come once, in turn.
func (s *stream) read(ctx context.Context, url, body string) error {
	start := time.Now()
	resp, err := openStream(ctx, url, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.took = make([]time.Duration, 0, s.chunks)
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		data, ok := bytes.CutPrefix(scan.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if s.first == 0 {
			s.first = time.Since(start)
		}
		if err := s.chunk(string(data)); err != nil {
			return err
		}
	}
	if scan.Err() == nil && len(s.took) != s.chunks {
		return fmt.Errorf("%w: %d of %d", errTurn, len(s.took), s.chunks)
	}
	return scan.Err()
}

// chunk reads the chunks of an event: neighbours may have been joined.
func (s *stream) chunk(data string) error {
	for {
		_, rest, ok := strings.Cut(data, "@")
		if !ok {
			return nil
		}
		stamp, rest, _ := strings.Cut(rest, " ")
		at, turn, _ := strings.Cut(stamp, "-")
		if turn != strconv.Itoa(len(s.took)) {
			return fmt.Errorf("%w: %s in the place of %d", errTurn, turn, len(s.took))
		}
		nanos, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return err
		}
		s.took = append(s.took, time.Since(time.Unix(0, nanos)))
		data = rest
	}
}

func openStream(ctx context.Context, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		err = errors.New(resp.Status)
	}
	return resp, err
}

// readAll has streams read side by side, and gives how long their chunks took and their first
// ones, by length.
func readAll(tb testing.TB, n int, what tale, read func(i int, s *stream) error) (took, first []time.Duration) {
	tb.Helper()
	all := make([]stream, n)
	var done sync.WaitGroup
	for i := range all {
		s := &all[i]
		s.tale = what
		done.Go(func() { s.err = read(i, s) })
	}
	done.Wait()
	for _, s := range all {
		require.NoError(tb, s.err)
		took, first = append(took, s.took...), append(first, s.first)
	}
	require.Len(tb, took, n*what.chunks, "every chunk, once, to everybody")
	slices.Sort(took)
	slices.Sort(first)
	return took, first
}

// percentile is that of times by length.
func percentile(all []time.Duration, p int) time.Duration {
	return all[min(len(all)*p/100, len(all)-1)]
}

// TestStreams measures the time from an agent's or a model's write of a chunk to its arrival at the
// reader, that to the first of an answer, and what streams that are silent take.
func TestStreams(t *testing.T) { //nolint:paralleltest // it measures
	url := newTeller(t)
	config := weirConfig(t, url, fmt.Sprintf("workers: {slots: 600, chats: 600}\nagents: {BENCH: {url: %q, mode: stream, concurrency: 600}}\nmodels: {bench: {url: %[1]q, usage: false}}\n", url))
	type base struct{ name, url string }
	bases := []base{{"direct", url}}
	for _, durability := range durabilities() {
		bases = append(bases, base{durability, startWeir(t, t.TempDir(), config, durability).URL})
	}
	rows := newTable("a chunk every 20 ms, or as fast as they go", "streams", "", "", "chunks/s", "p50", "p99", "first chunk, p50", "p99")
	ids := 0
	for _, r := range []struct {
		dialect

		streams, chunks int
		pace            time.Duration
	}{
		{runs, 1, 500, 20 * time.Millisecond},
		{runs, 20, 500, 20 * time.Millisecond},
		{runs, 1, 50_000, 0},
		{runs, 500, 500, 0},
		{chats, 1, 500, 20 * time.Millisecond},
		{chats, 20, 500, 20 * time.Millisecond},
		{chats, 500, 500, 20 * time.Millisecond},
		{chats, 20, 1, 0},
		{responses, 1, 500, 20 * time.Millisecond},
		{responses, 20, 500, 20 * time.Millisecond},
		{responses, 500, 500, 20 * time.Millisecond},
		{messages, 1, 500, 20 * time.Millisecond},
		{messages, 20, 500, 20 * time.Millisecond},
		{messages, 500, 500, 20 * time.Millisecond},
	} {
		n, what := sized(r.streams, min(r.streams, 2)), tale{sized(r.chunks, min(r.chunks, 3)), r.pace}
		for _, b := range bases {
			ids++
			begun := time.Now()
			took, first := readAll(t, n, what, func(i int, s *stream) error {
				return s.read(t.Context(), b.url+r.route, fmt.Sprintf(r.ask, fmt.Sprintf("bench-%d-%d", ids, i), what))
			})
			rate := float64(len(took)) / time.Since(begun).Seconds()
			rows.row(n, r.name, b.name, rate, percentile(took, 50), percentile(took, 99), percentile(first, 50), percentile(first, 99))
		}
	}
	idle(t, config)
}

// idle measures the memory of the whole program while many streams of a few silent runs are open,
// beside what it takes with the runs alone.
func idle(t *testing.T, config string) {
	t.Helper()
	streams, silent := sized(10_000, 20), sized(100, 4)
	p := startWeir(t, t.TempDir(), config, "process")
	open := func(i int) {
		resp, err := openStream(t.Context(), p.URL+runs.route, fmt.Sprintf(runs.ask, fmt.Sprintf("idle-%d", i%silent), tale{}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		_, err = bufio.NewReader(resp.Body).ReadString('\n')
		require.NoError(t, err)
	}
	for i := range silent {
		open(i)
	}
	alone := heaviest(p)
	for i := range streams {
		open(i)
	}
	opened := heaviest(p)
	rows := newTable(fmt.Sprintf("%d idle streams of %d runs", streams, silent), "before", "with them", "each")
	rows.row(alone, opened, fmt.Sprintf("%.0f KiB", 1024*(opened-alone)/mib(streams)))
	p.Kill()
}
