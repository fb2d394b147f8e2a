package ingress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/git"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/handoff"
	"weir/internal/task"
	"weir/schemas"
)

// repoTable has the repositories "own" and "other" of the tenant acme.
type repoTable struct{}

func (repoTable) Get(_ context.Context, tenant, name string) (schemas.Repo, error) {
	if tenant != "acme" || name != "own" && name != "other" {
		return schemas.Repo{}, fault.ErrNotFound
	}
	return schemas.Repo{ID: "id-" + name, Name: name, Mode: schemas.RepoHosted}, nil
}

func gitGrants(_ context.Context, token string) (task.Grant, error) {
	switch token {
	case "task":
		return task.Grant{
			Tenant: "acme", TaskID: "t-1", Lease: 2, Repo: "own", Branch: "work", Force: true, Principal: "tok-1", Holder: "tok-2", Entries: []string{"upstream"},
		}, nil
	case "readonly":
		return task.Grant{Tenant: "acme"}, nil
	case "idle":
		return task.Grant{}, fault.New(schemas.TaskNotRunning, "this token holds no task now")
	default:
		return task.Grant{}, fault.New(schemas.Unauthorized, "the token is not in force")
	}
}

// gitWorld is an ingress that takes pushes. Its responder does what the worker does
// with what it is handed, too.
type gitWorld struct {
	*world
	hands  *handoff.Hands
	pusher *pusher
}

type pusher struct {
	*responder
	hands *handoff.Hands
	took  bool
	pack  []byte
	err   error
	// during is called before it takes what it is handed.
	during func()
}

func (p *pusher) Respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration) {
	p.responder.Respond(httptest.NewRecorder(), r, ref, receipt, wait)
	if p.during != nil {
		p.during()
	}
	hand, done, ok := p.hands.Take(ref)
	if p.took = ok; ok {
		p.pack, p.err = io.ReadAll(hand.Body)
		hand.Progress([]byte("taken"))
		done()
	}
	if a, ok := w.(*githttp.Answer); ok {
		a.Report([]byte("end"))
	}
}

func gitSetup(t *testing.T, change ...func(*git.Config)) *gitWorld {
	t.Helper()
	w := &gitWorld{hands: handoff.New()}
	cfg := git.Config{Grant: gitGrants, Repos: repoTable{}, Hands: w.hands}
	for _, f := range change {
		f(&cfg)
	}
	var room ingress.Config
	w.world = setup(t, func(c *ingress.Config) { c.Git = &cfg; room = *c })
	w.pusher = &pusher{responder: w.responder, hands: w.hands}
	w.engine = ingress.NewEngine(ingress.EngineConfig{Metrics: w.metrics})
	ingress.New(w.ledger, door{}, w.pusher, room).Mount(w.engine)
	return w
}

const receive = "/git/own.git/git-receive-pack"

var (
	oidA = strings.Repeat("a", 40)
	oidB = strings.Repeat("b", 40)
)

func command(from, to, ref string) gitwire.Command {
	return gitwire.Command{Old: from, New: to, Ref: ref}
}

// pushOf is the body of a push.
func pushOf(pack string, caps []string, list ...gitwire.Command) string {
	return string(gitwire.Commands{List: list}.Bytes(caps)) + pack
}

var clientCaps = []string{"report-status-v2", "report-status", "side-band-64k", "quiet", "object-format=sha1", "agent=git/2.39.5", "push-cert=x"}

func (w *gitWorld) push(path, token, body string, headers ...string) *httptest.ResponseRecorder {
	r := pushRequest(path, token, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.send(r)
}

func pushRequest(path, token string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func TestAPushIsStoredAndHandedOver(t *testing.T) {
	t.Parallel()
	w := gitSetup(t)
	body := pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/work"))
	rec := w.push(receive, "task", body, "Prefer", "respond-async", "Idempotency-Key", `"k"`)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, string(gitwire.AppendProgress(nil, []byte("taken")))+"end", rec.Body.String())
	require.Equal(t, "PACK…", string(w.pusher.pack))
	require.NoError(t, w.pusher.err)

	c := w.responder.last(t)
	require.Negative(t, c.wait, "a client of git takes no receipt")
	require.True(t, c.held)
	require.Equal(t, schemas.KindPush, c.ref.Kind)
	require.Equal(t, c.ref.ID, rec.Header().Get("Weir-Action-Id"))
	require.False(t, w.hands.Here(c.ref))
	require.Equal(t, 1, w.metrics.accepted[schemas.KindPush])

	a := w.action(t, "acme", c.ref.ID)
	require.Equal(t, "tok-1", a.Principal)
	require.Equal(t, []string{"upstream"}, a.Entries)
	require.Equal(t, schemas.IDGenerated, a.IDSource)
	var order schemas.PushOrder
	require.NoError(t, json.Unmarshal(a.Payload, &order))
	require.Equal(t, schemas.PushOrder{
		Repo: "own", Ref: "refs/heads/work", Old: oidA, New: oidB, TaskID: "t-1", Lease: 2, Branch: "work", Force: true, Holder: "tok-2",
		Report: true, SideBand: true, Capabilities: []string{"quiet", "report-status", "side-band-64k"},
	}, order)

	w.push(receive, "task", body, "Idempotency-Key", `"k"`)
	require.NotEqual(t, c.ref.ID, w.responder.last(t).ref.ID, "each push is one")
}

func TestFormsOfAPush(t *testing.T) {
	t.Parallel()
	command := command(oidA, oidB, "refs/heads/work")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, pushOf("PACK…", clientCaps, command))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	progress := string(gitwire.AppendProgress(nil, []byte("taken")))
	for name, tc := range map[string]struct {
		body   string
		want   string
		stored bool
	}{
		"zipped":         {zipped.String(), progress + "end", true},
		"without a band": {pushOf("PACK…", []string{"report-status"}, command), "end", true}, // and there is no progress on it
		"a probe":        {"0000", "", false},                                                // it asks for nothing
	} {
		w := gitSetup(t)
		var headers []string
		if name == "zipped" {
			headers = []string{"Content-Encoding", "gzip"}
		}
		rec := w.push(receive, "task", tc.body, headers...)
		require.Equal(t, http.StatusOK, rec.Code, name)
		require.Equal(t, tc.want, rec.Body.String(), name)
		require.Equal(t, tc.stored, w.records(t) == 1, name)
		require.Equal(t, tc.stored, string(w.pusher.pack) == "PACK…", name)
		if !tc.stored {
			require.Equal(t, "application/x-git-receive-pack-result", rec.Header().Get("Content-Type"), name)
		}
	}
}

func TestAPushThatCannotBeStored(t *testing.T) {
	t.Parallel()
	body := pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/work"))
	w := gitSetup(t)
	w.plant(fault.ErrFull, nil)
	rec := w.push(receive, "task", body, "User-Agent", "git/2.39.5")
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Contains(t, rec.Body.String(), "LOG_FULL")
	require.Empty(t, rec.Header().Get("Weir-Action-Id"))
	require.Empty(t, w.responder.calls)

	w.plant(nil, fault.ErrUnavailable)
	rec = w.push(receive, "task", body)
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	id := rec.Header().Get("Weir-Action-Id")
	require.NotEmpty(t, id, "it may be on the log")
	require.False(t, w.hands.Here(schemas.Ref{Tenant: "acme", Kind: schemas.KindPush, ID: id}))
	for ref, n := range w.responder.held {
		require.Zero(t, n, "%v", ref)
	}
}

// A push that goes on may take longer than any other body, and its answer too.
func TestASlowPush(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		piece int // bytes
		pause time.Duration
		want  string
	}{
		"goes on": {32 << 10, 25 * time.Second, "PACK"},
		"stops":   {32 << 10, 31 * time.Second, "P"},
		"drips":   {1, 25 * time.Second, "PA"},
	} {
		pieces := func(text string) string {
			var all strings.Builder
			for _, c := range text {
				all.WriteString(strings.Repeat(string(c), tc.piece))
			}
			return all.String()
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := gitSetup(t)
				l := make(pipes)
				srv := &http.Server{Handler: w.engine}
				go func() { _ = srv.Serve(l) }()
				client, server := net.Pipe()
				l <- server
				done := make(chan struct{})
				go func() {
					defer close(done)
					head := pushOf("", clientCaps, command(oidA, oidB, "refs/heads/work"))
					_, _ = io.WriteString(client, "POST "+receive+" HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer task\r\n"+
						"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: "+strconv.Itoa(len(head)+4*tc.piece)+"\r\n\r\n"+head)
					for _, c := range "PACK" {
						if _, err := io.WriteString(client, pieces(string(c))); err != nil {
							return
						}
						time.Sleep(tc.pause)
					}
				}()
				resp, err := http.ReadResponse(bufio.NewReader(client), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, client.Close())
				<-done
				require.Equal(t, pieces(tc.want), string(w.pusher.pack))
				require.Equal(t, tc.want != "PACK", errors.Is(w.pusher.err, os.ErrDeadlineExceeded))
				close(l)
				require.NoError(t, srv.Close())
			})
		})
	}
}
