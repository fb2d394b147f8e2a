//go:build nightly

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

// write is one record of an action, and how long its document is.
type write struct {
	what string
	size int
	// durable waits for the barrier behind the record.
	durable bool
}

// writes are the records before the call and those after it.
type writes struct{ before, after []write }

// The sizes are those of Weir's own records of the call that is measured, and so are the
// barriers: TestFloorWritesWhatWeirWrites holds them to it. No design keeps the promises with
// fewer records: evidence, which Weir writes beside them, is not among them.
func weirWrites(method string) writes {
	return writes{
		before: []write{
			{what: "accepted", size: 460, durable: true},
			{what: "attempt", size: 453, durable: method != http.MethodGet},
		},
		after: []write{{what: "settled", size: 640, durable: true}},
	}
}

// floor serves the call, which it makes on a connection that is kept. Each record is waited for
// before the next.
type floor struct {
	server *embedded.Server
	nc     *nats.Conn
	client http.Client
	writes writes
}

// floorLayout is what an embedded node has by default.
func floorLayout() schemas.Layout { return schemas.Layout{Partitions: 1} }

const floorStream = "FLOOR"

// floorCommand runs the floor: DIR DURABILITY METHOD.
const floorCommand = "floor"

func floorMain(ctx context.Context, args []string) int {
	if err := runFloor(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		return 1
	}
	return 0
}

func runFloor(ctx context.Context, args []string) (err error) {
	f := &floor{writes: weirWrites(args[2])}
	f.client.Transport = &http.Transport{MaxIdleConnsPerHost: 1000, Proxy: nil}
	f.server, err = embedded.Start(embedded.Config{Dir: args[0], Layout: floorLayout(), Durability: schemas.Durability(args[1])})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.server.Stop()) }()
	if err := f.open(ctx); err != nil {
		return err
	}
	defer f.nc.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	fmt.Printf("floor: ready on http://%s\n", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// open connects as Weir does, and makes the stream.
func (f *floor) open(ctx context.Context) (err error) {
	if f.nc, err = f.server.Connect(nats.Name("floor"), nats.ReconnectBufSize(-1)); err != nil {
		return err
	}
	js, err := jetstream.New(f.nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: floorStream, Subjects: []string{"floor.log.>"}, Storage: jetstream.FileStorage})
	return err
}

// ServeHTTP takes the requests that Weir takes.
func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	doc, err := f.do(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc)
}

func (f *floor) do(r *http.Request) ([]byte, error) {
	var call struct {
		Method string          `json:"method"`
		URL    string          `json:"url"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	a := action{floor: f, id: id.String(), body: max(len(call.Body)-len(smallBody), 0)}
	if err := a.write(r.Context(), f.writes.before); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(r.Context(), call.Method, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := a.write(r.Context(), f.writes.after); err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID     string          `json:"id"`
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{a.id, resp.StatusCode, body})
}

// action writes the records of one call, each behind the one before.
type action struct {
	*floor
	id   string
	body int // what the request's body adds to the first
	last uint64
}

func (a *action) write(ctx context.Context, all []write) error {
	for _, w := range all {
		if err := a.append(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.what, err)
		}
		if w.durable {
			if err := a.server.Barrier(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *action) append(ctx context.Context, w write) error {
	section := "event"
	if w.what == "accepted" {
		section = w.what
		w.size += a.body
	}
	action := ".default.http." + a.id
	m := &nats.Msg{Subject: "floor.log.0." + section + action, Data: document(a.id, w), Header: nats.Header{
		"Nats-Expected-Last-Subject-Sequence":         {strconv.FormatUint(a.last, 10)},
		"Nats-Expected-Last-Subject-Sequence-Subject": {"floor.log.0.*" + action},
	}}
	reply, err := a.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	var ack struct {
		Seq   uint64          `json:"seq"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return err
	}
	if ack.Seq == 0 {
		return fmt.Errorf("refused: %s", ack.Error)
	}
	a.last = ack.Seq
	return nil
}

// document is a record of the size that Weir's has.
func document(id string, w write) []byte {
	head := `{"id":"` + id + `","type":"` + w.what + `","rest":"`
	return []byte(head + strings.Repeat("x", max(w.size-len(head)-2, 0)) + `"}`)
}

// TestFloorWritesWhatWeirWrites keeps the floor honest: for one call both leave the same
// records in the log, in the same order, of about the same size. Where Weir comes to write fewer,
// the floor has to as well.
func TestFloorWritesWhatWeirWrites(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			upstream := newUpstream(t).url
			body := map[string]string{http.MethodPost: smallBody}[method]
			nodeDir, floorDir := t.TempDir(), t.TempDir()
			for _, p := range []*process{
				startWeir(t, nodeDir, weirConfig(t, upstream, ""), "process"), start(t, floorCommand, floorDir, "process", method),
			} {
				execute(p, same(callOf(method, upstream+"/x", body))).put(t, load{callers: 1}, limit{calls: 1})
				terminate(t, p)
			}
			wrote, least := written(t, nodeDir, schemas.LogStream(0)), written(t, floorDir, floorStream)
			require.Len(t, least, len(wrote), "records")
			for i, w := range wrote {
				require.Equal(t, w.what, least[i].what)
				require.InEpsilonf(t, w.size, least[i].size, 0.15, "the size of %s: Weir's is %d bytes", w.what, w.size)
			}
		})
	}
}

// written reads the log in a data directory.
func written(t *testing.T, dir, log string) (all []write) {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: floorLayout(), Durability: schemas.DurabilityProcess})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	nc, err := server.Connect()
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), log)
	require.NoError(t, err)
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		all = append(all, write{what: fixture.Decode[struct{ Type string }](t, string(m.Data)).Type, size: len(m.Data)})
	}
	return all
}
