package ingress_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/git"
	"weir/internal/gitwire"
	"weir/internal/problem"
	"weir/schemas"
)

// A push that may not be is stored like any other; nobody takes its pack, and its client
// is heard out.
func TestDeniedPushes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		list []gitwire.Command
		says string
	}{
		"IN-GIT-043 delete": {[]gitwire.Command{command(oidA, gitwire.Zero, "refs/heads/work")}, "deleted"},
		"IN-GIT-045 a path": {[]gitwire.Command{command(oidA, oidB, "refs/heads/../../config")}, "push to refs/heads/work"},

		"create":                  {[]gitwire.Command{command(gitwire.Zero, oidB, "refs/heads/work")}, "created"},
		"another branch":          {[]gitwire.Command{command(oidA, oidB, "refs/heads/main")}, "push to refs/heads/work"},
		"another branch, created": {[]gitwire.Command{command(gitwire.Zero, oidB, "refs/heads/x")}, "push to refs/heads/work"},
		"a tag of that name":      {[]gitwire.Command{command(oidA, oidB, "refs/tags/work")}, "push to refs/heads/work"},

		"below it":       {[]gitwire.Command{command(oidA, oidB, "refs/heads/work/x")}, "push to refs/heads/work"},
		"two":            {[]gitwire.Command{command(oidA, oidB, "refs/heads/work"), command(oidA, oidB, "refs/heads/main")}, "one branch alone"},
		"the same twice": {[]gitwire.Command{command(oidA, oidB, "refs/heads/work"), command(oidB, oidA, "refs/heads/work")}, "one branch alone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gitSetup(t)
			rec := w.push(receive, "task", pushOf("PACK…", clientCaps, tc.list...))
			require.Equal(t, http.StatusOK, rec.Code, rec.Body)
			require.False(t, w.pusher.took)
			var order schemas.PushOrder
			require.NoError(t, json.Unmarshal(w.action(t, "acme", w.responder.last(t).ref.ID).Payload, &order))
			require.Contains(t, order.Denied, tc.says)
			require.Equal(t, tc.list[0].Ref, order.Ref)
			require.Equal(t, tc.list[0].New, order.New)
			require.Equal(t, "work", order.Branch)
		})
	}
}

func TestRefusedPushes(t *testing.T) {
	t.Parallel()
	good := pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/work"))
	for name, tc := range map[string]struct {
		path, token, body string
		headers           []string
		status            int
		code              schemas.Code
	}{
		"IN-GIT-023 read-only":    {receive, "readonly", "0000", nil, 403, schemas.Forbidden},
		"without a task":          {receive, "idle", good, nil, 403, schemas.Forbidden},
		"no token":                {receive, "", good, nil, 401, schemas.Unauthorized},
		"a dead token":            {receive, "dead", good, nil, 401, schemas.Unauthorized},
		"a dead token, a probe":   {receive, "dead", "0000", nil, 401, schemas.Unauthorized},
		"another repo":            {"/git/other/git-receive-pack", "task", good, nil, 404, schemas.NotFound},
		"no repo":                 {"/git/none/git-receive-pack", "readonly", good, nil, 404, schemas.NotFound},
		"a path":                  {"/git/..%2fown/git-receive-pack", "task", good, nil, 404, schemas.NotFound},
		"media type":              {receive, "task", good, []string{"Content-Type", "application/json"}, 415, schemas.UnsupportedMediaType},
		"coding":                  {receive, "task", good, []string{"Content-Encoding", "br"}, 415, schemas.UnsupportedEncoding},
		"no gzip":                 {receive, "task", good, []string{"Content-Encoding", "gzip"}, 400, schemas.InvalidRequest},
		"version 1":               {receive, "task", good, []string{"Git-Protocol", "version=1"}, 400, schemas.GitProtocolRequired},
		"no version":              {receive, "task", good, []string{"Git-Protocol", "x"}, 400, schemas.InvalidRequest},
		"empty":                   {receive, "task", "", nil, 400, schemas.InvalidRequest},
		"a length that lies":      {receive, "task", "0003", nil, 400, schemas.InvalidRequest},
		"no flush":                {receive, "task", good[:40], nil, 400, schemas.InvalidRequest},
		"a control character":     {receive, "task", pushOf("", nil, command(oidA, oidB, "refs/heads/\x1b[2J")), nil, 400, schemas.InvalidRequest},
		"too many commands":       {receive, "task", pushOf("", nil, make40(oidA, oidB)...), nil, 413, schemas.PayloadTooLarge},
		"larger than may be":      {receive, "task", good + strings.Repeat("x", 3<<20), nil, 413, schemas.GitPackTooLarge},
		"there is nothing there":  {"/git/own/HEAD", "task", good, nil, 404, schemas.NotFound},
		"nothing is fetched here": {"/git/own/git-upload-archive", "task", good, nil, 404, schemas.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gitSetup(t, func(c *git.Config) { c.MaxPack = 1 << 20 })
			rec := w.push(tc.path, tc.token, tc.body, tc.headers...)
			require.Equal(t, tc.status, rec.Code, rec.Body)
			require.Equal(t, problem.MediaType, rec.Header().Get("Content-Type"))
			var p schemas.Problem
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &p))
			require.Equal(t, tc.code, p.Code)
			require.Equal(t, 1, w.metrics.refused[tc.code])
			if tc.status == http.StatusUnauthorized {
				require.Equal(t, `Basic realm="weir"`, rec.Header().Get("WWW-Authenticate"))
			}
			require.Zero(t, w.records(t))
			require.Empty(t, w.responder.calls)

			rec = w.push(tc.path, tc.token, tc.body, append(tc.headers, "User-Agent", "git/2.39.5")...)
			require.Equal(t, tc.status, rec.Code)
			require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"))
			require.Equal(t, strconv.Itoa(rec.Body.Len()), rec.Header().Get("Content-Length"))
		})
	}
}

func make40(from, to string) (list []gitwire.Command) {
	for i := range 40 {
		list = append(list, command(from, to, "refs/heads/b"+strconv.Itoa(i)))
	}
	return list
}
