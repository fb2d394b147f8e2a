package git

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

func (r *Repos) importing(ctx context.Context, st *wanted) (defaultBranch string, err error) {
	p, err := openImportProxy(ctx, r.cfg.Upstream.Forward, callerOf(st.st, ""), schemas.Repo{
		Tenant: st.st.Tenant, UpstreamURL: st.order.ImportURL, AllowlistKey: st.order.AllowlistKey,
	})
	if err != nil {
		return "", err
	}
	defer p.close(context.WithoutCancel(ctx))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &progressWriter{log: r.cfg.Ledger, st: st.st, now: r.cfg.Now, end: end, last: r.cfg.Now()}
	branch := func(ctx context.Context) (string, error) {
		if st.order.DefaultBranch != "" {
			return st.order.DefaultBranch, nil
		}
		refs, err := p.forward.refs(ctx, p.who, p.repo, schemas.RefOf(""))
		return defaultOf(refs), err
	}
	defaultBranch, err = r.cfg.Hosted.Import(ctx, st.st.Tenant, st.id, p.url, branch, func(p schemas.RepoProgress) { t.write(ctx, p) })
	if cause := p.cause.Load(); err != nil && cause != nil && ctx.Err() == nil {
		return "", fmt.Errorf("%w: %w", errImport, *cause)
	}
	return defaultBranch, err
}

var errImport = errors.New("the repository could not be copied")

// defaultOf is the branch that an upstream's HEAD names, or else is at; failing that main, master, or the first one.
func defaultOf(refs []gitwire.Ref) (branch string) {
	head := find(refs, gitwire.HEAD)
	likely := []string{head.Symref, schemas.RefOf("main"), schemas.RefOf("master")}
	best := 0
	for _, r := range refs {
		name, ok := strings.CutPrefix(r.Name, schemas.RefOf(""))
		rank := []int{1, 6, 3, 2}[1+slices.Index(likely, r.Name)]
		if r.Oid == head.Oid {
			rank += 3
		}
		if ok && rank > best {
			branch, best = name, rank
		}
	}
	return branch
}

// progressInterval is the interval of progress events on the log: an event is a write, and a person does
// not look more often. A shorter copy writes none. The end of a phase is written at once, because
// the next phase may be silent for a while.
const progressInterval = time.Second

// progressWriter writes the progress of a copy to the log.
type progressWriter struct {
	log call.Events
	st  *ledger.State
	now func() time.Time
	end context.CancelCauseFunc // of the copy

	last        time.Time
	written     schemas.RepoProgress
	unconfirmed *schemas.Event // not acknowledged; the log may have it
}

// write ends the copy if the action must stop, or belongs to another worker by now. A log that is
// unavailable for a while does not end it: the same event is then written the next time, because no
// other event may follow it before its fate is known.
func (t *progressWriter) write(ctx context.Context, p schemas.RepoProgress) {
	now := t.now()
	over := p.Done == p.Total && t.written.Total > 0
	if p == t.written || now.Sub(t.last) < progressInterval && !over || ctx.Err() != nil {
		return
	}
	t.last = now
	if t.unconfirmed == nil {
		doc, err := ledger.Encode(p)
		if err != nil {
			return
		}
		t.written, t.unconfirmed = p, &schemas.Event{Type: schemas.EventProgress, Time: time.Now().UTC(), Data: doc}
	}
	err := t.log.Append(context.WithoutCancel(ctx), t.st, *t.unconfirmed) // a stop does not tear it
	switch {
	case errors.Is(err, fault.ErrUnavailable):
		return
	case err == nil && t.st.CancelRequested:
		err = errCanceled
	}
	if t.unconfirmed = nil; err != nil {
		t.end(err)
	}
}

// maxAsk is the size limit of one request of an import.
const maxAsk = 32 << 20

// importProxy gives this node's git access to one repository elsewhere, and to nothing else: a
// listener on loopback under a secret path, which forwards the requests of one import.
type importProxy struct {
	forward *Forward
	who     caller
	repo    schemas.Repo
	path    string
	server  *http.Server
	url     string
	end     context.CancelFunc

	cause atomic.Pointer[error] // why the first request to the upstream failed
}

// openImportProxy listens. The proxy ends with ctx at the latest, and must be closed.
func openImportProxy(ctx context.Context, f *Forward, who caller, repo schemas.Repo) (*importProxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &importProxy{forward: f, who: who, repo: repo, path: "/" + rand.Text() + "/repo.git"}
	p.url = "http://" + listener.Addr().String() + p.path
	ctx, p.end = context.WithCancel(ctx)
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = p.server.Serve(listener) }() // until close
	return p, nil
}

// close ends the proxy, and waits for its running requests.
func (p *importProxy) close(ctx context.Context) {
	p.end()
	_ = p.server.Shutdown(ctx)
}

// ServeHTTP passes one request on.
func (p *importProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protocol := 0
	if strings.Contains(r.Header.Get("Git-Protocol"), "version=2") {
		protocol = 2
	}
	var out *githttp.Stream
	var err error
	switch suffix, _ := strings.CutPrefix(r.URL.Path, p.path); {
	case r.Method == http.MethodGet && suffix == "/info/refs" && r.URL.Query().Get("service") == schemas.GitUploadPack:
		out = githttp.NewStream(w, gitwire.AdvertisementType(schemas.GitUploadPack))
		err = p.forward.advertise(r.Context(), p.who, p.repo, schemas.GitUploadPack, protocol, out)
	case r.Method == http.MethodPost && suffix == "/"+schemas.GitUploadPack:
		out = githttp.NewStream(w, gitwire.ResultType(schemas.GitUploadPack))
		var asked gitwire.Fetch
		asked, err = githttp.ReadFetch(w, r, protocol == 2, githttp.Limits{Bytes: maxAsk, Total: time.Minute}, "a request of the import")
		switch {
		case err == nil:
			err = p.forward.uploadPack(r.Context(), p.who, p.repo, asked, out)
		case r.Context().Err() != nil:
			return // git has ended
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err == nil {
		out.Begin()
		return
	}
	p.cause.CompareAndSwap(nil, &err)
	if out.Begun() { // git must not take it for whole
		panic(http.ErrAbortHandler)
	}
	http.Error(w, "the upstream could not be reached", http.StatusBadGateway)
}
