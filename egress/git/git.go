// Package git serves what git reads of a repository, and words the ends of pushes.
package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// Source is where the objects of repositories are. Both methods write nothing before
// they know that there is an answer: an error without a byte written gets a status of
// its own, and should be a public one.
type Source interface {
	// Advertise writes the answer to GET info/refs, with the service line where the
	// protocol has one. Protocol is 0 or 2.
	Advertise(ctx context.Context, repo schemas.Repo, g task.Grant, service string, protocol int, w io.Writer) error
	// UploadPack writes the answer to one request of a fetch.
	UploadPack(ctx context.Context, repo schemas.Repo, g task.Grant, f gitwire.Fetch, w io.Writer) error
}

// Config of the reading routes.
type Config struct {
	githttp.Authorizer
	// Hosted has the repositories of this node, and Proxied those of upstream servers; of
	// one that is nil nothing is served.
	Hosted, Proxied Source
	// Opened waits for the branch of a task; its errors are public.
	Opened func(r *http.Request, g task.Grant) error
	// Hold keeps the lease of the client until it is released.
	Hold func(g task.Grant) (release func())
	// Over is closed when a task has ended or its lease is lost; see internal/activetasks. It ends a
	// running answer.
	Over func(ref schemas.Ref, lease int) (over <-chan struct{}, forget func())
	// Timeout bounds one request and its answer.
	Timeout time.Duration
}

// Surface are the routes by which git's clients read, and the view of kind push. They push
// through ingress. Without a configuration the routes are not served.
func Surface(cfg *Config) egress.Surface {
	d := &server{limit: githttp.TaskLimit("fetches", fetches)}
	if cfg != nil {
		d.Config = *cfg
	}
	repo := schemas.RouteGit + "/:repo/"
	return egress.Surface{
		Name: "git", Absent: cfg == nil,
		Routes: []egress.Route{
			{Method: http.MethodGet, Path: repo + "info/refs", Handle: handler(d.refs)},
			{Method: http.MethodPost, Path: repo + schemas.GitUploadPack, Handle: handler(d.fetch)},
			{Method: http.MethodPost, Path: repo + "info/lfs/*path", Handle: handler(d.lfs)},
			{Method: http.MethodGet, Path: repo + "info/lfs/*path", Handle: handler(d.lfs)},
		},
		Views: []egress.View{{
			Kind: schemas.KindPush, Reading: true,
			Stopping: fault.New(schemas.Unavailable, "the node is stopping, and whether the branch was updated is not known yet; look at it with git ls-remote, and push again if it was not"),
			Answer: func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
				Push(w, r, s, doc)
				return nil
			},
			Fail: func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, err error) { Refuse(w, r, err) },
		}},
	}
}

// server serves the reads of git clients. It is safe for concurrent use.
type server struct {
	Config

	limit func(g task.Grant) (release func(), err error)
}

const (
	fetches    = 4       // of one task at a time
	maxRequest = 8 << 20 // bytes of the request of a fetch, decoded
)

// refs answers GET info/refs, with which every fetch and push begins.
func (d *server) refs(w http.ResponseWriter, r *http.Request, named string) error {
	who, repo, err := d.Authorize(r, named)
	if err != nil {
		return err
	}
	service, err := service(r.URL.RawQuery)
	if err == nil && service == schemas.GitReceivePack {
		err = githttp.Pushes(who)
	}
	if err != nil {
		return err
	}
	protocol, err := githttp.Protocol(r.Header)
	if err != nil {
		return err
	}
	if service == schemas.GitReceivePack {
		protocol = 0 // there is no other for pushes
	}
	source, err := d.source(repo)
	if err != nil {
		return err
	}
	defer d.Hold(who)()
	if err := d.Opened(r, who); err != nil { // every clone, fetch and push begins here
		return githttp.Holding(err)
	}
	return d.answer(w, r, gitwire.AdvertisementType(service), func(ctx context.Context, w *githttp.Stream) error {
		return source.Advertise(ctx, repo, who, service, protocol, w)
	})
}

// service is the one that the query names. One that is named twice could be another
// to the check than to the server.
func service(query string) (string, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", fault.New(schemas.InvalidRequest, "the query cannot be read; name one service")
	}
	switch named := q["service"]; {
	case len(named) == 0:
		return "", refused(schemas.NotFound, "there are no files to fetch here; ask as a client of git does that knows smart HTTP")
	case len(named) > 1:
		return "", fault.New(schemas.InvalidRequest, "name one service")
	case named[0] != schemas.GitUploadPack && named[0] != schemas.GitReceivePack:
		return "", refused(schemas.Forbidden, "this service is not served; there are "+schemas.GitUploadPack+" and "+schemas.GitReceivePack)
	default:
		return named[0], nil
	}
}

// lfs answers the clients of Git LFS, whose files are not served.
func (d *server) lfs(w http.ResponseWriter, r *http.Request, named string) error {
	if _, _, err := d.Authorize(r, named); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	w.WriteHeader(http.StatusNotImplemented)
	_, err := io.WriteString(w, `{"message":"Git LFS is not served here; with GIT_LFS_SKIP_SMUDGE=1 git clones without its files"}`)
	return err
}

// refused is 400 for a code that has another status elsewhere: the resource is there,
// the request is the wrong one.
func refused(code schemas.Code, detail string) error {
	return &problem.Error{Problem: schemas.Problem{Code: code, Status: http.StatusBadRequest, Detail: detail}}
}

func (d *server) fetch(w http.ResponseWriter, r *http.Request, named string) error {
	who, repo, err := d.Authorize(r, named)
	if err != nil {
		return err
	}
	protocol, err := githttp.Protocol(r.Header)
	if err == nil {
		err = githttp.MediaType(r.Header, schemas.GitUploadPack)
	}
	if err != nil {
		return err
	}
	source, err := d.source(repo)
	if err != nil {
		return err
	}
	leave, err := d.limit(who)
	if err != nil {
		return err
	}
	defer leave()
	defer d.Hold(who)()
	f, err := githttp.ReadFetch(w, r, protocol == 2, maxRequest, d.Timeout)
	if err != nil {
		return err
	}
	ctx, forget := d.until(r.Context(), who)
	defer forget()
	if _, _, err := d.Authorize(r, named); err != nil { // it may have ended while its request came
		return err
	}
	return d.answer(w, r.WithContext(ctx), gitwire.ResultType(schemas.GitUploadPack), func(ctx context.Context, w *githttp.Stream) error {
		if f.Command == "" { // a probe asks whether a large request would be let in
			return nil
		}
		err := source.UploadPack(ctx, repo, who, f, w)
		switch said, own := gaveUp(err); {
		case own && w.Begun():
			return nil // it has told the client why
		case own:
			return &fault.Error{Code: schemas.InvalidRequest, Message: "git did not take the request: " + cmp.Or(said, "it gave no reason"), Cause: err}
		}
		return err
	})
}

// until is a context that ends with the task whose holder fetches, or with its lease: a request
// must not outlast its token.
func (d *server) until(ctx context.Context, who task.Grant) (_ context.Context, forget func()) {
	if who.TaskID == "" {
		return ctx, func() {}
	}
	over, drop := d.Over(who.Task(), who.Lease)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-over:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() { cancel(); drop() }
}

func (d *server) source(repo schemas.Repo) (Source, error) {
	source := d.Hosted
	if repo.Mode == schemas.RepoProxy {
		source = d.Proxied
	}
	if source == nil {
		return nil, fault.New(schemas.Unavailable, "this node does not serve this repository; ask another one")
	}
	return source, nil
}

// errBroken: an answer was begun and not completed.
var errBroken = errors.New("the answer broke off")

// answer lets a source write, within the time of a request. The status goes out with
// the first byte.
func (d *server) answer(w http.ResponseWriter, r *http.Request, mediaType string, write func(context.Context, *githttp.Stream) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), d.Timeout)
	defer cancel()
	out := githttp.NewStream(w, mediaType)
	err := write(ctx, out)
	if err == nil {
		out.Begin()
	} else if out.Begun() {
		return errors.Join(errBroken, err)
	}
	return err
}

// handler answers with an error as git's clients read it. A begun answer is cut off instead, so that it cannot
// pass for a whole one; a client that is gone gets nothing.
func handler(serve func(w http.ResponseWriter, r *http.Request, named string) error) egress.Handler {
	return func(c *gin.Context) error {
		switch err := serve(c.Writer, c.Request, c.Param("repo")); {
		case err == nil:
		case errors.Is(err, errBroken):
			panic(http.ErrAbortHandler)
		default:
			githttp.Refuse(c.Writer, c.Request, func() { problem.WriteGit(c.Writer, c.Request, err) })
		}
		return nil
	}
}

// gaveUp reports whether git exited by itself because of the request, and its last message. A
// killed git does not count.
func gaveUp(err error) (said string, own bool) {
	failed, ok := errors.AsType[*git.ExitError](err)
	if !ok {
		return "", false
	}
	how, ok := errors.AsType[*exec.ExitError](err)
	return failed.Text, ok && how.ExitCode() > 0
}
