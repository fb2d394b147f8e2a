//go:build e2e

package canary_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

const (
	uploadType  = "application/x-git-upload-pack-request"
	receiveType = "application/x-git-receive-pack-request"
)

// commit has a canary in each of the texts of a commit and of what is in it, and a
// class for each of them that begins with what is given.
func (h *house) commit(class, parent string) pushed { return grown(h.g, class, parent) }

// pushed is what a push brings.
type pushed struct {
	pack []byte
	tip  string
}

func grown(g *garden, class, parent string) pushed {
	blob := gitkit.BlobOf(g.plant(class + " content"))
	link := gitkit.BlobOf(g.plant(class + " link"))
	inner := gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: g.plant(class + " file"), ID: blob.ID()})
	tree := gitkit.TreeOf(
		gitkit.Entry{Mode: "40000", Name: g.plant(class + " folder"), ID: inner.ID()},
		gitkit.Entry{Mode: "120000", Name: "zz", ID: link.ID()},
	)
	c := commitOf(g, class, tree.ID(), parent)
	return pushed{gitkit.Pack(c, tree, inner, blob, link), c.ID()}
}

func commitOf(g *garden, class, tree, parent string) gitkit.Object {
	text := "tree " + tree + "\n"
	if parent != "" {
		text += "parent " + parent + "\n"
	}
	text += fmt.Sprintf("author %s <%s@example.com> 1700000000 +0000\ncommitter %s <x@example.com> 1700000000 +0000\n\n%s\n\n%s\n",
		g.plant(class+" author"), g.plant(class+" mail"), g.plant(class+" committer"), g.plant(class+" message"), g.plant(class+" message's body"))
	return gitkit.Object{Type: gitkit.Commit, Data: []byte(text)}
}

// texts are the last parts of the classes that grown plants.
func texts() []string {
	return []string{"content", "link", "file", "folder", "author", "mail", "committer", "message", "message's body"}
}

// all is everything that a repository has, unpacked.
func all(tb testing.TB, dir string) string {
	tb.Helper()
	list := gitkit.Git(tb, dir, "cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
	return gitkit.GitIn(tb, dir, []byte(list+"\n"), "cat-file", "--batch")
}

// kept proves that a commit of a class lies in a repository on this node.
func (h *house) kept(class string) {
	h.t.Helper()
	repos, err := filepath.Glob(filepath.Join(h.dir, "git", "repos", "*.git"))
	require.NoError(h.t, err)
	var have strings.Builder
	for _, dir := range repos {
		have.WriteString(all(h.t, dir))
	}
	for _, part := range texts() {
		assert.Contains(h.t, have.String(), h.g.text(h.t, class+" "+part))
	}
}

// push has the agent push to its task's branch.
func (e errand) push(p pushed, want int) string {
	e.h.t.Helper()
	return e.pushBody(gitkit.PushBody(gitkit.Update{Old: e.task.Base, New: p.tip, Ref: schemas.RefOf(e.task.Branch)}, p.pack), want)
}

func (e errand) pushBody(body []byte, want int, header ...string) string {
	e.h.t.Helper()
	header = append([]string{"Content-Type", receiveType}, header...)
	status, text := e.ask(http.MethodPost, "/git/"+e.task.Repo+".git/git-receive-pack", string(body), header...)
	assert.Equal(e.h.t, want, status, text)
	return text
}

// madePush is a push whose update lacks what the task says.
type madePush struct {
	update gitkit.Update
	pack   []byte
}

// pushes are refused and fail in every way, and one does not.
func (h *house) pushes() {
	g, t := h.g, h.t
	type made = madePush
	broken := func(class string, spoil func(pack []byte) []byte) func(e errand) made {
		return func(e errand) made {
			p := h.commit(class, e.task.Base)
			return made{gitkit.Update{New: p.tip}, spoil(p.pack)}
		}
	}
	for class, c := range map[string]struct {
		of   func(e errand) made
		want int
		says string
	}{
		"good": {broken("good push", func(b []byte) []byte { return b }), http.StatusOK, "unpack ok"},
		"denied ref": {func(e errand) made {
			return made{gitkit.Update{New: e.task.Base, Ref: "refs/heads/" + g.plant("ref that is denied")}, nil}
		}, http.StatusOK, "GIT_REF_DENIED"},
		"no ref at all": {func(e errand) made {
			return made{gitkit.Update{New: e.task.Base, Ref: g.plant("what is no ref") + "..lock"}, nil}
		}, http.StatusOK, "GIT_REF_DENIED"},
		"control ref": {func(e errand) made {
			return made{gitkit.Update{New: e.task.Base, Ref: "refs/heads/\x01" + g.plant("ref with a control")}, nil}
		}, http.StatusBadRequest, "INVALID_REQUEST"},
		"long ref": {func(e errand) made {
			return made{gitkit.Update{New: e.task.Base, Ref: strings.Repeat(g.plant("long ref"), 60)}, nil}
		}, http.StatusRequestEntityTooLarge, ""},
		"deleted":     {func(errand) made { return made{gitkit.Update{New: gitkit.Zero}, nil} }, http.StatusOK, "GIT_REF_DENIED"},
		"no checksum": {broken("push without its end", func(b []byte) []byte { return b[:len(b)-20] }), http.StatusOK, "GIT_INCOMPLETE"},
		"damaged":     {broken("push that is damaged", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), http.StatusOK, "GIT_INCOMPLETE"},
		"more":        {broken("push with more", func(b []byte) []byte { return append(b, g.plant("what follows a pack")...) }), http.StatusOK, "GIT_INCOMPLETE"},
		"no pack":     {func(e errand) made { return made{gitkit.Update{New: e.task.Base}, []byte(g.plant("what is no pack"))} }, http.StatusOK, "GIT_INCOMPLETE"},
		"bomb": {func(errand) made {
			return made{gitkit.Update{New: strings.Repeat("b", 40)}, gitkit.DeltaBomb(10 << 30)}
		}, http.StatusOK, "GIT_PACK_TOO_LARGE"},
		"large": {func(errand) made {
			return made{gitkit.Update{New: strings.Repeat("b", 40)}, []byte(strings.Repeat(g.plant("large push"), 80000))}
		}, http.StatusRequestEntityTooLarge, "GIT_PACK_TOO_LARGE"},
		"evil": {func(e errand) made { return h.evil(e.task.Base) }, http.StatusOK, "unpack "},
		"bad author": {func(e errand) made {
			tree := gitkit.TreeOf()
			c := gitkit.Object{Type: gitkit.Commit, Data: []byte("tree " + tree.ID() + "\nparent " + e.task.Base + "\nauthor " + g.plant("author that is none") + "\n\n" + g.plant("message of nobody") + "\n")}
			return made{gitkit.Update{New: c.ID()}, gitkit.Pack(c, tree)}
		}, http.StatusOK, "unpack "},
		"no tree": {func(e errand) made {
			c := commitOf(g, "commit without a tree", strings.Repeat("cd", 20), e.task.Base)
			return made{gitkit.Update{New: c.ID()}, gitkit.Pack(c)}
		}, http.StatusOK, "ng "},
		"not forward": {func(errand) made {
			p := h.commit("push that does not go forward", "")
			return made{gitkit.Update{New: p.tip}, p.pack}
		}, http.StatusOK, "ng "},
	} {
		e := h.file("push that is "+class, nil)
		m := c.of(e)
		if m.update.Old == "" {
			m.update.Old = e.task.Base
		}
		if m.update.Ref == "" {
			m.update.Ref = schemas.RefOf(e.task.Branch)
		}
		body := gitkit.PushBodyWith([]gitkit.Update{m.update}, append(gitkit.Capabilities(), "agent=git/"+g.plant("agent of a push")), m.pack)
		assert.Contains(t, e.pushBody(body, c.want, "User-Agent", "git/"+g.plant("user agent of git")), c.says, class)
		e.closed()
	}
	h.halfPush()
}

// evil is a push that git refuses after it has looked into it.
func (h *house) evil(parent string) (m madePush) {
	blob := gitkit.BlobOf(h.g.plant("content of the evil"))
	inner := gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: h.g.plant("file of the evil"), ID: blob.ID()})
	tree := gitkit.TreeOf(gitkit.Entry{Mode: "40000", Name: ".git", ID: inner.ID()})
	c := commitOf(h.g, "evil", tree.ID(), parent)
	m.update.New, m.pack = c.ID(), gitkit.Pack(c, tree, inner, blob)
	return m
}

// halfPush is one whose client goes away.
func (h *house) halfPush() {
	e := h.file("push that breaks off", nil)
	p := h.commit("push that breaks off", e.task.Base)
	body := gitkit.PushBody(gitkit.Update{Old: e.task.Base, New: p.tip, Ref: schemas.RefOf(e.task.Branch)}, p.pack)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
	require.NoError(h.t, err)
	_, err = fmt.Fprintf(conn, "POST /git/%s/git-receive-pack HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		ownRepo, e.token, receiveType, len(body), body[:len(body)-30])
	assert.NoError(h.t, err)
	assert.NoError(h.t, conn.Close())
}

// gitDoor is what clients of git are refused, and told.
func (h *house) gitDoor() {
	g := h.g
	e := h.file("at git's door", nil)
	at := "/git/" + ownRepo
	for _, path := range []string{
		"/git/" + strings.ToLower(g.plant("repository in a path")) + "/info/refs?service=git-upload-pack", at + "/info/refs?service=" + g.plant("service"), at + "/info/refs?" + g.plant("query of git") + "=1",
		at + "/info/refs?service=git-upload-pack&x=" + g.plant("more of a query"), at + "/objects/" + g.plant("dumb file"), at + "/" + g.plant("route of git"), "/git/%2e%2e%2f" + g.plant("dots of git") + "/info/refs",
	} {
		e.ask(http.MethodGet, path, "")
		e.ask(http.MethodGet, path, "", "User-Agent", "git/2.39.5 "+g.plant("client of git"))
	}
	for _, version := range []string{"version=1", "version=2:" + g.plant("protocol of git"), "version=2"} {
		e.ask(http.MethodGet, at+"/info/refs?service=git-upload-pack", "", "Git-Protocol", version)
	}
	fetch := []string{"Content-Type", uploadType, "Git-Protocol", "version=2"}
	for _, args := range [][]string{
		{"ls-refs", "ref-prefix refs/heads/" + g.plant("prefix of refs")},
		{"ls-refs", g.plant("argument of ls-refs")},
		{"fetch", "want " + e.task.Base, "filter " + g.plant("git's word on a filter"), "done"},
		{"fetch", "want " + e.task.Base, "deepen-not " + g.plant("what not to deepen"), "done"},
		{"fetch", "want " + e.task.Base, g.plant("argument of a fetch"), "done"},
		{"fetch", "want-ref refs/heads/" + g.plant("wanted ref"), "done"},
		{"fetch", "want " + e.task.Base, "done"},
		{g.plant("command of git")},
	} {
		e.ask(http.MethodPost, at+"/git-upload-pack", string(gitkit.FetchV2(args[0], args[1:]...)), fetch...)
	}
	e.pushBody([]byte("0000"+g.plant("behind a probe")), http.StatusOK)
	e.pushBody([]byte("0000"), http.StatusBadRequest, "Git-Protocol", "version=1")
	for _, body := range []string{g.plant("what is no packet"), gitkit.Pkt(g.plant("packet")), gitkit.Pkt("command="+g.plant("command")) + "0000"} {
		e.ask(http.MethodPost, at+"/git-upload-pack", body, fetch...)
		e.pushBody([]byte(body), http.StatusBadRequest, "Git-Protocol", "version=2")
	}
	e.ask(http.MethodPost, at+"/git-upload-pack", "0000", "Content-Type", "text/"+g.plant("media type of git"))
	e.ask(http.MethodPost, at+"/git-upload-pack", g.plant("no gzip at all"), append(fetch, "Content-Encoding", "gzip")...)
	e.ask(http.MethodPost, at+"/git-upload-pack", "0000", append(fetch, "Content-Encoding", g.plant("coding of git"))...)
	options := gitkit.PushBodyWith([]gitkit.Update{{Old: e.task.Base, New: gitkit.Zero, Ref: schemas.RefOf(e.task.Branch)}},
		append(gitkit.Capabilities(), "push-options", "session-id="+g.plant("session of git")), []byte(gitkit.Pkt(g.plant("push option")+"\n")+"0000"))
	e.pushBody(options, http.StatusOK)
	for _, value := range []string{"Basic " + g.plant("password that is not encoded"), "Bearer " + g.plant("token for git")} {
		h.nobody.ask(http.MethodGet, at+"/info/refs?service=git-upload-pack", "", "Authorization", value)
	}
	e.closed()
}

// proxied are repositories that come from a git server elsewhere, or stay there.
func (h *house) proxied() {
	repo := func(name string, doc object, want int) {
		doc["name"] = name
		status, text := h.owner.ask(http.MethodPost, schemas.RouteRepos, h.jsonOf(doc))
		if want != 0 {
			assert.Equal(h.t, want, status, text)
			return
		}
		assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, text)
	}
	repo("imported", object{"import_url": "http://git.example/mirror.git"}, http.StatusCreated)
	repo("proxied", object{"upstream_url": "http://git.example/mirror.git", "allowlist_key": "mirror"}, http.StatusCreated)
	for i, path := range []string{"/broken.git", "/text.git", "/moved.git", "/closed.git", "/err.git", "/" + h.g.plant("path of a git server") + ".git"} {
		repo(fmt.Sprintf("imported-%d", i), object{"import_url": "http://git.example" + path}, 0)
		repo(fmt.Sprintf("proxied-%d", i), object{"upstream_url": "http://git.example" + path}, 0)
	}
	repo("none", object{"import_url": "http://git.example/mirror.git", "allowlist_key": h.g.plant("key of a git server")}, 0)
	repo("none", object{"import_url": "http://" + strings.ToLower(h.g.plant("host of a git server")) + ".example/x.git"}, 0)
	repo("none", object{"import_url": "http://u:" + h.g.plant("password of a git server") + "@git.example/x.git"}, 0)
	for _, c := range []struct{ class, branch, says string }{
		{"pushed upstream", "upstream", "ok refs/heads/"}, {"refused upstream", "up/refused", "ng refs/heads/"},
	} {
		e := h.file("task "+c.class, object{"repo": "proxied", "branch": c.branch})
		status, text := e.ask(http.MethodGet, schemas.RouteAgentTask, "")
		assert.Equal(h.t, http.StatusOK, status, text)
		assert.Contains(h.t, e.push(h.commit(c.class, e.task.Base), http.StatusOK), c.says)
		for _, args := range [][]string{{"ls-refs", "peel"}, {"fetch", "want " + e.task.Base, "done"}, {"fetch", "want " + strings.Repeat("ab", 20), "done"}} {
			e.ask(http.MethodPost, "/git/proxied/git-upload-pack", string(gitkit.FetchV2(args[0], args[1:]...)), "Content-Type", uploadType, "Git-Protocol", "version=2")
		}
		e.closed()
	}
}

// contested is a name that two imports are under way to.
func (h *house) contested() {
	var ids []string
	for i := range 2 {
		resp, text := h.owner.send(http.MethodPost, schemas.RouteRepos, h.jsonOf(object{"name": "contested", "request_id": fmt.Sprintf("contested-%d", i), "import_url": "http://git.example/held.git"}), "Prefer", "respond-async")
		require.Equal(h.t, http.StatusAccepted, resp.StatusCode, text)
		ids = append(ids, resp.Header.Get("Weir-Action-Id"))
	}
	close(h.git.release)
	for _, id := range ids {
		h.settled(id)
		h.owner.ask(http.MethodGet, "/v1/actions/"+id, "")
	}
}
