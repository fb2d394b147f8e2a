package egress_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/egress"
	"weir/egress/chat"
	"weir/egress/executor"
	"weir/egress/git"
	"weir/egress/index"
	"weir/egress/passthrough"
	"weir/egress/plans"
	"weir/egress/rules"
	"weir/egress/runs"
	"weir/egress/stream"
	"weir/egress/tasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

var layout = schemas.Layout{Partitions: 3}

// env is a server with its surfaces over a log in memory.
type env struct {
	t       testing.TB
	log     *memlog.Log
	ledger  *ledger.Ledger
	feed    *stream.Feed
	server  *egress.Server
	chat    chat.Answerer
	rules   rules.Answerer
	tasks   tasks.Answerer
	engine  *gin.Engine
	reads   atomic.Int64
	barrier atomic.Int64
	fail    atomic.Pointer[func() error]
	late    atomic.Int64 // how many of the newest records a replica does not show
	deaf    atomic.Bool  // the feed misses what is stored
}

// failing has reads of the log answer as f says.
func (h *env) failing(f func() error) { h.fail.Store(&f) }

// readerOf takes the tenant from a bearer token of its name, and entries from what follows a slash in it.
func readerOf(r *http.Request, _ string) (egress.Reader, error) {
	token, entry, limited := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "/")
	who := egress.Reader{Token: schemas.Token{Tenant: token, Scopes: []string{schemas.ScopeAdmin}}}
	if limited {
		who.Entries = []string{entry}
	}
	if token == "" {
		return who, fault.New(schemas.Unauthorized, "a token is needed")
	}
	return who, nil
}

// config is what a house is made of.
type config struct {
	egress.Config

	HTTP        stream.HTTP
	Service     egress.ServiceConfig
	Tokens      egress.TokenList
	Rules       rules.Store
	Repos       tasks.Catalog
	PublicURL   func() string
	Diff        func(ctx context.Context, repo schemas.Repo, base, head string, most int) (diff []byte, cut bool, err error)
	Models      func() *models.Set
	Lists       func(up schemas.ModelUpstream) []schemas.ListedModel
	Budgets     chat.Budgets
	TaskStreams int
	Git         *git.Config
	Index       egress.Index
}

// serve makes the surfaces that are configured.
func (h *env) serve(cfg config) []egress.Surface {
	s := h.server
	h.rules = rules.NewAnswerer(s, cfg.Rules)
	h.tasks = tasks.NewAnswerer(s, tasks.Config{Repos: cfg.Repos, Index: cfg.Index, PublicURL: cfg.PublicURL, Diff: cfg.Diff, Partitions: layout.Partitions})
	h.chat = chat.NewAnswerer(s, chat.Config{Models: cfg.Models, Lists: cfg.Lists, Budgets: cfg.Budgets})
	all := slices.Concat([]egress.Surface{
		s.Records(), s.Lists(cfg.Index), executor.Surface(), passthrough.Surface(s), plans.Surface(), runs.Surface(), h.rules.Surface(),
		git.Surface(cfg.Git), egress.Service(cfg.Service),
	}, h.tasks.Surfaces(), h.chat.Surfaces())
	if cfg.Tokens != nil {
		all = append(all, s.Tokens(cfg.Tokens))
	}
	return all
}

func build(tb testing.TB, change ...func(*config)) *env {
	tb.Helper()
	h := &env{t: tb}
	h.log = memlog.New(layout, time.Now, memlog.Hooks{Read: func() error {
		h.reads.Add(1)
		if fail := h.fail.Load(); fail != nil {
			return (*fail)()
		}
		return nil
	}, Late: func() int { return int(h.late.Load()) }, Deaf: h.deaf.Load})
	h.ledger = ledger.New(h.log, layout, nil)
	cfg := config{
		Config: egress.Config{
			Layout: layout, Live: h.log, Reader: readerOf,
			Reserve: func(context.Context, string, ...string) (func(), error) { return func() {}, nil },
		},
		PublicURL: func() string { return "" },
		Service: egress.ServiceConfig{
			Ready: schemas.Readiness{Durability: schemas.DurabilityDisk, Partitions: layout.Partitions}, Reader: readerOf,
			PolicyVersion: func() string { return "v-1" },
			Allow:         func(*http.Request, string) error { return nil },
			AllowedHosts:  func() []string { return []string{"localhost", "::1"} },
		},
	}
	of := cfg // the feed is opened with what changes of it
	for _, f := range change {
		f(&of)
	}
	others, slots := of.HTTP.Watch, tasks.NewSlots(of.TaskStreams)
	of.HTTP.Watch = func(r *http.Request) (context.Context, func(), error) {
		if watch := slots.Watch(r); watch != nil {
			return watch(r)
		}
		if others != nil {
			return others(r)
		}
		return r.Context(), func() {}, nil
	}
	var err error
	h.feed, err = stream.Open(h.log, h.log, stream.Config{
		Layout: layout,
		Result: func(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage {
			return h.server.Result(ref, s, doc)
		},
		Part:    func(ref schemas.Ref, data json.RawMessage) json.RawMessage { return h.server.Part(ref, data) },
		Barrier: func(context.Context) error { h.barrier.Add(1); return nil }, HTTP: of.HTTP,
	})
	require.NoError(tb, err)
	tb.Cleanup(h.feed.Close)
	x := index.New(h.log, h.feed, index.Config{Layout: layout, Path: filepath.Join(tb.TempDir(), "i.db"), Wait: time.Minute})
	tb.Cleanup(x.Close)
	cfg.Index = egress.Index{Actions: x.List, Stats: x.Stats, Usage: x.Usage, Refs: x.Refs}
	for _, f := range change {
		f(&cfg)
	}
	cfg.Service.Checks = append(cfg.Service.Checks, egress.Check{Name: "feed", Run: h.feed.Ready})
	h.server = egress.NewServer(h.log, h.ledger, cfg.Config)
	all := h.serve(cfg)
	h.server.Follow(h.feed, all)
	h.engine = gin.New()
	h.engine.RedirectTrailingSlash = false
	egress.Mount(h.engine, all)
	return h
}

// accept accepts an action of tenant acme.
func (h *env) accept(a schemas.Action) *ledger.State {
	h.t.Helper()
	now := time.Now().UTC()
	a.Tenant, a.IDSource, a.Fingerprint = cmp.Or(a.Tenant, "acme"), schemas.IDRequest, "f"
	if a.Deadline = now.Add(time.Minute); a.AcceptedAt.IsZero() {
		a.AcceptedAt = now
	}
	st, _, err := h.ledger.Claim(context.Background(), a)
	require.NoError(h.t, err)
	return st
}

func (h *env) claim(r schemas.Ref) *ledger.State {
	h.t.Helper()
	return h.accept(schemas.Action{
		ID: r.ID, Tenant: r.Tenant, Kind: r.Kind, Class: schemas.ClassOnce,
		Payload: json.RawMessage(`{"method":"GET","url":"http://u:secret.example@API.example/orders?key=secret.example"}`),
	})
}

func (h *env) append(st *ledger.State, ev schemas.Event) {
	h.t.Helper()
	require.NoError(h.t, h.ledger.Append(context.Background(), st, ev))
}

func (h *env) settle(st *ledger.State, s schemas.Settled) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventSettled, Settled: &s})
}

func (h *env) attempt(st *ledger.State) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "worker-7"}})
	h.append(st, schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{
		Number: 1, Class: schemas.ClassOnce, Worker: "worker-7", ExpiresAt: time.Now().UTC(),
		Decision: schemas.Decision{Allowed: true, Entry: "github", Version: "v-1"},
	}})
}

// ask sends a request as a tenant, without a socket.
func (h *env) ask(method, target, tenant string, header ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, target, http.NoBody)
	if tenant != "" {
		r.Header.Set("Authorization", "Bearer "+tenant)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.engine.ServeHTTP(w, r)
	return w
}

func (h *env) get(target string, header ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.ask(http.MethodGet, target, "acme", header...)
}

func decode[T any](tb testing.TB, body io.Reader) (v T) {
	tb.Helper()
	require.NoError(tb, json.NewDecoder(body).Decode(&v))
	return v
}

func httpRef(id string) schemas.Ref {
	return schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: id}
}

func planRef(id string) schemas.Ref {
	return schemas.Ref{Tenant: "acme", Kind: schemas.KindPlan, ID: id}
}

var errDown = errors.New("dial 10.0.0.1: down")

// pages reads every page of a list of tenant acme, of so many items at most.
func pages[T any](h *env, path string, limit int) (all []T) {
	h.t.Helper()
	target := path + "?"
	if strings.Contains(path, "?") {
		target = path + "&"
	}
	for cursor := ""; ; {
		w := h.get(fmt.Sprintf("%slimit=%d%s", target, limit, cursor))
		require.Equal(h.t, http.StatusOK, w.Code, w.Body.String())
		p := decode[schemas.Page[T]](h.t, w.Body)
		require.LessOrEqual(h.t, len(p.Items), limit)
		require.LessOrEqual(h.t, len(all), 2000, "the pages come to an end")
		if all = append(all, p.Items...); p.Next == "" {
			return all
		}
		cursor = "&cursor=" + p.Next
	}
}
