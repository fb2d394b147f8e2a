package git_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// grant is the holder of the task's.
func grant() task.Grant {
	return task.Grant{Tenant: tenant, TaskID: taskID, Repo: "app", Branch: branch, Principal: "t-1"}
}

// TestFetchFromUpstream: a holder sees its branch and the default one, and fetches them whole.
func TestFetchFromUpstream(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]int{"protocol 2": 2, "protocol 0": 0}, func(t *testing.T, version int) {
		r, repo, base := proxying(t, options{})
		var out bytes.Buffer
		fetch := func(g task.Grant, in []byte) string {
			f, err := gitwire.ParseFetch(in, version == 2)
			require.NoError(t, err)
			out.Reset()
			require.NoError(t, r.forward.UploadPack(t.Context(), repo.Repo, g, f, &out))
			return out.String()
		}
		refs := func(g task.Grant) string {
			out.Reset()
			require.NoError(t, r.forward.Advertise(t.Context(), repo.Repo, g, schemas.GitUploadPack, version, &out))
			assert.NotContains(t, out.String(), "filter")
			if version == 0 {
				return out.String()
			}
			assert.Contains(t, out.String(), "fetch=shallow")
			return fetch(g, gitwire.LsRefs("refs/heads/"))
		}
		shown := refs(grant())
		assert.Contains(t, shown, "refs/heads/"+branch)
		assert.Contains(t, shown, "refs/heads/main")
		assert.NotContains(t, shown, "secret")
		want := gitkit.FetchV2("fetch", "want "+base, "done")
		if version == 0 {
			want = []byte(gitkit.Pkt("want "+base+" ofs-delta\n") + "0000" + gitkit.Pkt("done\n"))
		}
		assert.Contains(t, fetch(grant(), want), "PACK")
		for _, e := range r.evidence(schemas.EvidenceAttempt) {
			assert.Equal(t, []string{taskID, "upstream", "t-1"}, []string{e.ActionID, e.Entry, e.Principal})
		}
		assert.Contains(t, refs(task.Grant{Tenant: tenant, Principal: "t-2"}), "secret")
		based := grant()
		based.Base = "secret"
		assert.Regexp(t, `HEAD symref-target:refs/heads/secret\n|symref=HEAD:refs/heads/secret`, refs(based), "a clone checks out the base")
	})
}

// TestAdvertisementOfAPush: what a client is told before it pushes is what it may see,
// and of what it may use.
func TestAdvertisementOfAPush(t *testing.T) {
	t.Parallel()
	r, repo, base := proxying(t, options{})
	gitkit.Git(t, repo.dir, "config", "receive.advertisePushOptions", "true")
	var out bytes.Buffer
	require.NoError(t, r.forward.Advertise(t.Context(), repo.Repo, grant(), schemas.GitReceivePack, 2, &out))
	a, err := gitwire.ReadAdvertisement(&out)
	require.NoError(t, err)
	assert.Equal(t, []gitwire.Ref{{Name: "refs/heads/" + branch, Oid: base}, {Name: "refs/heads/main", Oid: repo.main}}, a.Refs)
	for _, c := range a.Capabilities {
		name, _, _ := strings.Cut(c, "=")
		assert.Contains(t, []string{"report-status", "side-band-64k", "quiet", "atomic", "ofs-delta", "object-format", "agent"}, name)
	}
}

func TestFetchThatIsRefused(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	repo := r.proxy()
	var out bytes.Buffer
	for name, in := range map[string][]byte{
		"by name":     gitkit.FetchV2("fetch", "want-ref refs/heads/secret", "done"),
		"with filter": gitkit.FetchV2("fetch", "want "+repo.main, "filter blob:none", "done"),
	} {
		f, err := gitwire.ParseFetch(in, true)
		require.NoError(t, err)
		said(t, r.forward.UploadPack(t.Context(), repo.Repo, grant(), f, &out), schemas.InvalidRequest)
		assert.Empty(t, out.Bytes(), name)
	}
	assert.Empty(t, repo.Requests(), "the upstream saw nothing of them")
}

func TestUpstreamThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const advert = "application/x-git-upload-pack-advertisement"
	says := func(media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, body)
		}
	}
	type testCase struct {
		answer http.HandlerFunc
		before func(*env, string)
		code   schemas.Code
		says   string
		denial bool
	}
	table.Run(t, map[string]testCase{
		"a page":   {answer: says("text/html", "<html>"), code: schemas.UpstreamProtocol, says: "no git server"},
		"nonsense": {answer: says(advert, "<html>"), code: schemas.UpstreamProtocol, says: "does not follow git's protocol"},
		"cut off": {answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "99")
			says(advert, gitkit.Pkt("# service=git-upload-pack\n")+"00")(w, r)
		}, code: schemas.UpstreamTruncated, says: "before it was complete"},
		"an error of git's": {answer: says(advert, gitkit.Pkt("ERR go away")), code: schemas.HTTPFailure, says: "credential"},
		"a redirect":        {answer: http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, code: schemas.HTTPFailure, says: "redirect"},
		"nobody":            {answer: http.NotFound, code: schemas.HTTPFailure, says: "404"},
		"a rule": {before: func(r *env, url string) {
			r.book.Put(r.t, rulebook.Mock("m", url+"/*", 503, `"busy"`))
		}, code: schemas.HTTPFailure, says: "503"},
		"held back": {before: func(r *env, url string) {
			r.book.Put(r.t, rulebook.Delay("d", url+"/*", 60_000))
		}, code: schemas.UpstreamTimeout, says: "hold"},
		"policy":  {before: func(r *env, _ string) { r.enforce() }, code: schemas.DenyHost, says: "policy", denial: true},
		"no rule": {before: func(r *env, _ string) { r.book.Break(io.EOF) }, code: schemas.DenyRule, denial: true},
	}, func(t *testing.T, c testCase) {
		r := newEnv(t, options{})
		hits := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			hits++
			assert.Equal(t, "Basic "+basic, q.Header.Get("Authorization"))
			assert.Equal(t, "git/weir", q.Header.Get("User-Agent"))
			c.answer(w, q)
		}))
		defer s.Close()
		r.allow(s.URL)
		if c.before != nil {
			c.before(r, s.URL)
		}
		repo := schemas.Repo{Name: "app", Tenant: tenant, Mode: schemas.RepoProxy, DefaultBranch: "main", UpstreamURL: s.URL + "/app.git"}
		var out bytes.Buffer
		message := said(t, r.forward.Advertise(t.Context(), repo, grant(), schemas.GitUploadPack, 2, &out), c.code)
		assert.Contains(t, message, c.says)
		assert.NotContains(t, message, s.URL)
		assert.Empty(t, out.Bytes())
		assert.Equal(t, c.answer == nil, hits == 0)
		if c.denial {
			assert.Len(t, r.evidence(schemas.EvidenceDecision), 1)
		} else {
			assert.Len(t, r.evidence(schemas.EvidenceAttempt), 1)
		}
	})
}

// TestFetchIsGivenUp: a client that leaves ends the request, whose evidence is left all
// the same.
func TestFetchIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		cancel()
		<-q.Context().Done()
	}))
	defer s.Close()
	r.allow(s.URL)
	repo := schemas.Repo{Name: "app", Tenant: tenant, Mode: schemas.RepoProxy, DefaultBranch: "main", UpstreamURL: s.URL + "/app.git"}
	require.Error(t, r.forward.Advertise(ctx, repo, grant(), schemas.GitUploadPack, 2, io.Discard))
	list := r.evidence(schemas.EvidenceAttempt)
	require.Len(t, list, 1)
	assert.Equal(t, schemas.Canceled, list[0].Code)
}
