package egress_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestGitFetches(t *testing.T) {
	t.Parallel()
	h := gitHouse(t, &stable{})
	w := h.fetch("/git/own.git/git-upload-pack", "task", lsRefs)
	require.Equal(t, "id-own 2 "+lsRefs, w.Body.String())
	require.Equal(t, "application/x-git-upload-pack-result", w.Header().Get("Content-Type"))

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, lsRefs)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	w = h.fetch("/git/own/git-upload-pack", "task", packed.String(), "Content-Encoding", "gzip")
	require.Equal(t, "id-own 2 "+lsRefs, w.Body.String())

	old := pkt("want "+strings.Repeat("a", 40)+" side-band-64k\n") + "0000" + pkt("done\n")
	w = h.fetch("/git/own/git-upload-pack", "task", old, "Git-Protocol", "version=0")
	require.Equal(t, "id-own 0 "+old, w.Body.String())

	silent := gitHouse(t, &stable{err: nil, silent: true})
	for body, h := range map[string]*house{"0000": h, lsRefs: silent} { // a probe; a source without an answer
		w = h.fetch("/git/own/git-upload-pack", "task", body)
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, w.Body.String())
		require.Equal(t, "application/x-git-upload-pack-result", w.Header().Get("Content-Type"))
	}
	require.Equal(t, http.StatusNotFound, build(t).ask(http.MethodGet, "/git/own"+refsPath, "task").Code, "a node without git")
}

func TestGitRefusesToFetch(t *testing.T) {
	t.Parallel()
	h := gitHouse(t, &stable{})
	haves := strings.Repeat(pkt("have "+strings.Repeat("a", 40)+"\n"), 1000)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := io.WriteString(z, pkt("command=fetch\n")+"0001")
	require.NoError(t, err)
	for range 9 << 20 / len(haves) {
		_, err = io.WriteString(z, haves)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	for name, tc := range map[string]struct {
		path, token, body string
		headers           []string
		status            int
		code              schemas.Code
	}{
		"IN-GIT-029 media type": {"/git/own", "task", "0000", []string{"Content-Type", "application/json"}, 415, schemas.UnsupportedMediaType},
		"IN-GIT-031 length 3":   {"/git/own", "task", "0003", nil, 400, schemas.InvalidRequest},
		"IN-GIT-033 no flush":   {"/git/own", "task", "0014command=ls-refs\n", nil, 400, schemas.InvalidRequest},
		"IN-GIT-035 empty":      {"/git/own", "task", "", nil, 400, schemas.InvalidRequest},
		"IN-GIT-037 haves":      {"/git/own", "task", strings.Repeat(haves, 200), nil, 413, schemas.PayloadTooLarge},
		"haves, decoded":        {"/git/own", "task", bomb.String(), []string{"Content-Encoding", "gzip"}, 413, schemas.PayloadTooLarge},
		"no gzip":               {"/git/own", "task", lsRefs, []string{"Content-Encoding", "gzip"}, 400, schemas.InvalidRequest},
		"another coding":        {"/git/own", "task", lsRefs, []string{"Content-Encoding", "br"}, 415, schemas.UnsupportedEncoding},
		"another command":       {"/git/own", "task", pkt("command=object-info\n") + "0000", nil, 400, schemas.InvalidRequest},
		"v2 asked as v0":        {"/git/own", "task", lsRefs, []string{"Git-Protocol", "version=0"}, 400, schemas.InvalidRequest},
		"version 1":             {"/git/own", "task", lsRefs, []string{"Git-Protocol", "version=1"}, 400, schemas.GitProtocolRequired},
		"a dead token":          {"/git/own", "dead", lsRefs, nil, 401, schemas.Unauthorized},
		"another's":             {"/git/other", "task", lsRefs, nil, 404, schemas.NotFound},
		"an upstream's":         {"/git/away", "reader", lsRefs, nil, 503, schemas.Unavailable},
	} {
		refused(t, h.fetch(tc.path+"/git-upload-pack", tc.token, tc.body, tc.headers...), tc.status, tc.code, name)
	}
}
