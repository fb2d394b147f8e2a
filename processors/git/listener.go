package git

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/schemas"
)

// maxAsk is the most that git may ask in one request of an import.
const maxAsk = 32 << 20

// passage is where this node's git reaches one repository elsewhere, and nothing else:
// a listener on loopback under a path that nobody can guess, which passes on what an import
// asks for. It is there for one import.
type passage struct {
	forward *Forward
	who     asker
	repo    schemas.Repo
	path    string
	server  *http.Server
	url     string
	done    chan struct{}

	busy   sync.WaitGroup
	mu     sync.Mutex
	closed bool
	cause  error // why the upstream could not be asked, the first time
}

// openPassage listens. The passage ends with ctx at the latest, and must be closed.
func openPassage(ctx context.Context, f *Forward, who asker, repo schemas.Repo) (*passage, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &passage{forward: f, who: who, repo: repo, path: "/" + rand.Text() + "/repo.git", done: make(chan struct{})}
	p.url = "http://" + listener.Addr().String() + p.path
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(listener) // until close
	}()
	return p, nil
}

// close ends the passage and whatever is under way in it.
func (p *passage) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.server.Close()
	<-p.done
	p.busy.Wait()
}

// enter counts a request in, unless the passage is closed.
func (p *passage) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.busy.Add(1)
	}
	return !p.closed
}

// failure is why an import could not read from the upstream; nil: it could, or never
// tried.
func (p *passage) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// ServeHTTP passes one request on.
func (p *passage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		return
	}
	defer p.busy.Done()
	protocol := 0
	if strings.Contains(r.Header.Get("Git-Protocol"), "version=2") {
		protocol = 2
	}
	var out *githttp.Stream
	var err error
	switch suffix, _ := strings.CutPrefix(r.URL.Path, p.path); {
	case r.Method == http.MethodGet && suffix == "/info/refs" && r.URL.Query().Get("service") == schemas.GitUploadPack:
		out = githttp.NewStream(w, gitwire.AdvertisementType(schemas.GitUploadPack))
		err = p.forward.advertise(r.Context(), p.who, p.repo, everything, schemas.GitUploadPack, protocol, out)
	case r.Method == http.MethodPost && suffix == "/"+schemas.GitUploadPack:
		out = githttp.NewStream(w, gitwire.ResultType(schemas.GitUploadPack))
		var in []byte
		if in, err = asked(r); err == nil {
			err = p.forward.uploadPack(r.Context(), p.who, p.repo, everything, protocol, in, out)
		}
	default:
		http.NotFound(w, r)
		return
	}
	p.conclude(w, out, err)
}

// conclude ends an answer. One that has begun is broken off, so that git does not take
// it for whole.
func (p *passage) conclude(w http.ResponseWriter, out *githttp.Stream, err error) {
	if err == nil {
		out.Begin()
		return
	}
	p.mu.Lock()
	p.cause = cmp.Or(p.cause, err)
	p.mu.Unlock()
	if out.Begun() {
		panic(http.ErrAbortHandler)
	}
	http.Error(w, "the upstream could not be asked", http.StatusBadGateway)
}

// asked is the body of a request, unpacked.
func asked(r *http.Request) ([]byte, error) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzip, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unzip
	}
	in, err := io.ReadAll(io.LimitReader(body, maxAsk+1))
	if err == nil && len(in) > maxAsk {
		err = fault.New(schemas.PayloadTooLarge, "the import asks for too much at once")
	}
	return in, err
}
