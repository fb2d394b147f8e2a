package gitwire_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
)

// door stands between the real client and a real server. What passes is read by this
// package and written anew.
type door struct {
	*httptest.Server
	t *testing.T
	b *gitkit.Backend
	// keep says which refs are shown; answer what a push is told, nil: what the server says.
	keep   func(ref string) bool
	answer func(c gitwire.Commands) []byte

	mu      sync.Mutex
	fetches []gitwire.Fetch
	pushes  []gitwire.Commands
}

func newDoor(t *testing.T) (d *door, url, dir string) {
	t.Helper()
	d = &door{t: t, b: gitkit.NewBackend(t), keep: func(string) bool { return true }}
	from, _ := gitkit.NewRepo(t)
	gitkit.Write(t, from, "second", "text\n")
	gitkit.Git(t, from, "branch", "other")
	gitkit.Git(t, from, "tag", "-a", "-m", "a tag", "v1")
	_, dir = d.b.Add(t, "x.git", from)
	gitkit.Git(t, dir, "config", "uploadpack.allowFilter", "true")
	gitkit.Git(t, dir, "config", "receive.advertisePushOptions", "true")
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d, d.URL + "/x.git", dir
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if !d.ok(w, err) {
			return
		}
		body = z
	}
	v2 := r.Header.Get("Git-Protocol") == "version=2"
	switch {
	case strings.HasSuffix(r.URL.Path, "/info/refs"):
		d.advertise(w, r)
	case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		d.fetch(w, r, body, v2)
	default:
		d.push(w, r, body)
	}
}

func (d *door) ok(w http.ResponseWriter, err error) bool {
	if err != nil {
		d.t.Error(err)
		w.WriteHeader(http.StatusInternalServerError)
	}
	return err == nil
}

// forward asks the server, and hands its answer over for reading.
func (d *door) forward(w http.ResponseWriter, r *http.Request, body io.Reader, answer func(io.Reader)) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, d.b.URL+r.URL.RequestURI(), body)
	if !d.ok(w, err) {
		return
	}
	for _, h := range []string{"Content-Type", "Git-Protocol", "Accept"} {
		req.Header.Set(h, r.Header.Get(h))
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if !d.ok(w, err) {
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	answer(resp.Body)
}

func (d *door) advertise(w http.ResponseWriter, r *http.Request) {
	d.forward(w, r, nil, func(b io.Reader) {
		a, err := gitwire.ReadAdvertisement(b)
		if d.ok(w, err) {
			a.Refs = gitwire.KeepRefs(a.Refs, d.keep)
			_, _ = w.Write(a.Bytes())
		}
	})
}

func (d *door) fetch(w http.ResponseWriter, r *http.Request, body io.Reader, v2 bool) {
	data, err := io.ReadAll(body)
	if !d.ok(w, err) {
		return
	}
	f, err := gitwire.ParseFetch(data, v2)
	if !d.ok(w, err) {
		return
	}
	d.mu.Lock()
	d.fetches = append(d.fetches, f)
	d.mu.Unlock()
	d.forward(w, r, bytes.NewReader(data), func(b io.Reader) {
		if f.Command != gitwire.CommandLsRefs {
			_, _ = io.Copy(w, b)
			return
		}
		refs, err := gitwire.ReadRefs(b)
		if d.ok(w, err) {
			_, _ = w.Write(gitwire.AppendRefs(nil, gitwire.KeepRefs(refs, d.keep)))
		}
	})
}

func (d *door) push(w http.ResponseWriter, r *http.Request, body io.Reader) {
	c, err := gitwire.ReadCommands(body)
	if !d.ok(w, err) {
		return
	}
	d.mu.Lock()
	d.pushes = append(d.pushes, c)
	d.mu.Unlock()
	switch {
	case len(c.List) == 0:
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		return
	case d.answer != nil:
		_, err = gitwire.ReadPack(body, gitwire.PackLimits{}, nil)
		if d.ok(w, err) {
			w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
			_, _ = w.Write(d.answer(c))
		}
		return
	}
	var pack bytes.Buffer
	if _, err = gitwire.ReadPack(io.TeeReader(body, &pack), gitwire.PackLimits{Bytes: 1 << 30, Object: 1 << 30}, nil); !d.ok(w, err) {
		return
	}
	d.forward(w, r, io.MultiReader(bytes.NewReader(c.Bytes(c.Capabilities)), &pack), func(b io.Reader) {
		sideBand := c.Has(gitwire.CapSideBand)
		rep, err := gitwire.Demux(b, sideBand, func(p []byte) { _, _ = w.Write(gitwire.AppendProgress(nil, p)) })
		if d.ok(w, err) {
			_, _ = w.Write(gitwire.AppendReport(nil, rep, sideBand))
		}
	})
}

func (d *door) clone(url string, args ...string) string {
	d.t.Helper()
	work := filepath.Join(d.t.TempDir(), "work")
	gitkit.Git(d.t, d.b.Root, slices.Concat(args, []string{url, work})...)
	return work
}

func TestRealFetches(t *testing.T) {
	t.Parallel()
	d, url, dir := newDoor(t)
	want := gitkit.Git(t, dir, "rev-parse", "main")
	for _, version := range []string{"0", "1", "2"} {
		protocol := "protocol.version=" + version
		for name, args := range map[string][]string{
			"whole": {"clone", "-q"}, "shallow": {"clone", "-q", "--depth=1"}, "partial": {"clone", "-q", "-n", "--filter=blob:none"}, "bare": {"clone", "-q", "--mirror"},
		} {
			work := d.clone(url, slices.Concat([]string{"-c", protocol}, args)...)
			require.Equal(t, want, gitkit.Git(t, work, "rev-parse", "main"), "%s by version %s", name, version)
			gitkit.Git(t, work, "fsck")
		}
	}
	work, another := d.clone(url, "clone", "-q"), d.clone(url, "clone", "-q")
	gitkit.Write(t, work, "mine", "mine\n")
	for _, version := range []string{"0", "2"} {
		gitkit.Write(t, another, "theirs", version)
		gitkit.Git(t, another, "push", "-q", "origin", "main")
		gitkit.Git(t, work, "-c", "protocol.version="+version, "fetch", "-q", "origin")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.fetches[len(d.fetches)-1]
	require.NotEmpty(t, last.Wants)
	require.True(t, slices.ContainsFunc(d.fetches, func(f gitwire.Fetch) bool { return f.Filter == "blob:none" }))
	require.True(t, slices.ContainsFunc(d.fetches, func(f gitwire.Fetch) bool { return f.Command == gitwire.CommandLsRefs }))
}

func TestRealClientSeesOnlyWhatIsKept(t *testing.T) {
	t.Parallel()
	d, url, dir := newDoor(t)
	d.keep = func(ref string) bool { return ref == main }
	head := gitkit.Git(t, dir, "rev-parse", "main")
	for _, version := range []string{"0", "1", "2"} {
		got := gitkit.Git(t, d.b.Root, "-c", "protocol.version="+version, "ls-remote", "--symref", url)
		require.Equal(t, "ref: refs/heads/main\tHEAD\n"+head+"\tHEAD\n"+head+"\trefs/heads/main", got)
	}
	d.keep = func(string) bool { return false }
	for _, version := range []string{"0", "2"} {
		require.Empty(t, gitkit.Git(t, d.b.Root, "-c", "protocol.version="+version, "ls-remote", url))
	}
}

func TestRealPushes(t *testing.T) {
	t.Parallel()
	d, url, dir := newDoor(t)
	work := d.clone(url, "clone", "-q")
	next := gitkit.Write(t, work, "new", "and more\n")
	gitkit.Git(t, work, "push", "-q", "-o", "a=b", "origin", "main")
	require.Equal(t, next, gitkit.Git(t, dir, "rev-parse", "main"))
	require.Equal(t, []string{"a=b"}, d.pushes[0].Options)

	// Larger than the client's buffer: a probe, and then by chunks.
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte('!' + (i*i*31+i)%90)
	}
	next = gitkit.Write(t, work, "large", string(text)+strings.Repeat("x", 1<<16))
	gitkit.Git(t, work, "-c", "http.postBuffer=1000", "-c", "core.compression=0", "push", "-q", "origin", "main")
	require.Equal(t, next, gitkit.Git(t, dir, "rev-parse", "main"))
	require.Empty(t, d.pushes[1].List)
	require.Len(t, d.pushes, 3)

	// The server's own refusal comes through.
	gitkit.Git(t, dir, "config", "receive.denyNonFastForwards", "true")
	gitkit.Git(t, work, "commit", "-q", "--amend", "-m", "another")
	r := gitkit.Run(t.Context(), work, gitkit.Env(), nil, "push", "--force", "origin", "main", "main:refs/heads/new")
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, "! [remote rejected] main -> main (non-fast-forward)")
	require.Contains(t, r.Err, "remote: error: denying non-fast-forward refs/heads/main")
	require.Contains(t, r.Err, "* [new branch]      main -> new")

	shallow := d.clone(url, "clone", "-q", "--depth=1")
	gitkit.Write(t, shallow, "shallow", "text\n")
	gitkit.Git(t, shallow, "push", "-q", "origin", "main")
	last := d.pushes[len(d.pushes)-1]
	require.Len(t, last.Shallow, 1)
}

func TestRealClientShowsARefusal(t *testing.T) {
	t.Parallel()
	d, url, _ := newDoor(t)
	work := d.clone(url, "clone", "-q")
	gitkit.Write(t, work, "new", "text\n")
	push := func(answer func(gitwire.Commands) []byte) string {
		d.answer = answer
		r := gitkit.Run(t.Context(), work, gitkit.Env(), nil, "push", "origin", "main", "HEAD:refs/heads/b")
		require.Equal(t, 1, min(r.Code, 1), r.Err)
		return r.Err
	}
	said := push(func(gitwire.Commands) []byte {
		return gitwire.AppendFatal(gitwire.AppendProgress(nil, []byte("looking\n")), "only the branch of the task may be pushed")
	})
	require.Contains(t, said, "remote: looking")
	require.Contains(t, said, "remote: error: only the branch of the task may be pushed")
	said = push(func(c gitwire.Commands) []byte {
		return gitwire.AppendReport(nil, gitwire.Report{Unpack: gitwire.UnpackOK, Refs: []gitwire.RefReport{
			{Ref: c.List[0].Ref}, {Ref: c.List[1].Ref, Reason: "not yours"},
		}}, true)
	})
	require.Contains(t, said, "main -> main\n")
	require.Contains(t, said, "! [remote rejected] HEAD -> b (not yours)")
	said = push(func(c gitwire.Commands) []byte {
		return gitwire.AppendReport(nil, gitwire.Report{Unpack: "the pack is broken", Refs: []gitwire.RefReport{
			{Ref: c.List[0].Ref, Reason: "unpacker error"}, {Ref: c.List[1].Ref, Reason: "unpacker error"},
		}}, true)
	})
	require.Contains(t, said, "remote unpack failed: the pack is broken")
}
