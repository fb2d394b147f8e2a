package app

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/ingress"
	"weir/ingress/accept"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

const withTokens = "auth: {mode: tokens}\n"

// caller is an app with somebody's token.
type caller struct {
	*App
	token string
}

// evidence reads a page of evidence once it has a text: a record may be stored a moment after the
// end of its action.
func (c caller) evidence(t *testing.T, query, holds string) (page string) {
	t.Helper()
	poll.Until(t, func() bool {
		_, page, _ = c.do(t, http.MethodGet, "/v1/evidence"+query, "", "Accept", "application/json")
		return strings.Contains(page, holds)
	}, holds)
	return page
}

// admin is the caller whom the first start has made.
func (a *App) admin(t *testing.T) caller {
	t.Helper()
	return caller{a, strings.TrimSpace(string(fixture.Read(t, a.cfg.AdminTokenFile())))}
}

func (c caller) do(t *testing.T, method, path, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	return c.ask(t, method, path, body, append([]string{"Authorization", "Bearer " + c.token}, header...)...)
}

// does is do whose answer must have this status.
func (c caller) does(t *testing.T, want int, method, path, body string, header ...string) (text string, h http.Header) {
	t.Helper()
	return c.asks(t, want, method, path, body, append([]string{"Authorization", "Bearer " + c.token}, header...)...)
}

// grant has an admin make a token, and returns who has it.
func (c caller) grant(t *testing.T, request string) (caller, schemas.NewToken) {
	t.Helper()
	body, _ := c.does(t, http.StatusCreated, http.MethodPost, "/v1/tokens", request)
	made := fixture.Decode[schemas.NewToken](t, body)
	return caller{c.App, made.Secret}, made
}

func (c caller) revoke(t *testing.T, id string) {
	t.Helper()
	c.does(t, http.StatusOK, http.MethodPost, "/v1/tokens/"+id+"/revoke", "")
}

// allSurfaces are the surfaces of a node by their names and routes, with what it reports about itself.
func allSurfaces(a *App) []ingress.Surface {
	reports := &surfaces{out: []egress.Surface{a.service()}}
	return slices.Concat(a.surfaces.in, a.surfaces.reads(), reports.reads())
}

// guarded are the routes of a node that name their scopes.
func guarded(a *App) (all []ingress.Route) {
	for _, s := range allSurfaces(a) {
		for _, r := range s.Routes {
			if len(r.Scopes) > 0 && r.Method != http.MethodHead {
				all = append(all, r)
			}
		}
	}
	return all
}

// parameter is the parameter of a route.
var parameter = regexp.MustCompile(`[:*][a-z]+`)

// TestThePageListsTheOpenRoutes requests every route of a node with tokens without one. The table of
// docs/explanation/security.md has the routes that do not refuse that, and no others.
func TestThePageListsTheOpenRoutes(t *testing.T) {
	t.Parallel()
	a := tokenNode.node(t)
	open := map[string][]string{}
	for _, r := range routesOf(t, a) {
		path := parameter.ReplaceAllString(r.Path, "x")
		body := ""
		if r.Method == http.MethodPost {
			body = "{}"
		}
		page := []string{schemas.HeaderConsole, "1"} // a page of the console asks
		status, _, _ := a.ask(t, r.Method, path, body, page...)
		if status == http.StatusUnauthorized || status == http.StatusForbidden {
			continue
		}
		if with, _, _ := a.admin(t).do(t, r.Method, path, body, page...); with != status {
			continue // without a token it is hidden
		}
		open[r.Path] = append(open[r.Path], r.Method)
	}
	require.NotEmpty(t, open)
	of := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(open)) {
		slices.Sort(open[path])
		methods := strings.Join(open[path], ", ")
		of[methods] = append(of[methods], "`"+path+"`")
	}
	var lines []string
	for _, methods := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, "- "+methods+":\n  "+strings.Join(of[methods], ",\n  "))
	}
	fixture.Page(t, "../../docs/explanation/security.md", "open routes", strings.Join(lines, "\n"))
}

// TestScopes: testdata/scopes.txt has each route and the scopes it asks for, and no test writes it: a
// scope changes only with a line that somebody reads.
func TestScopes(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, r := range guarded(tokenNode.node(t)) {
		lines = append(lines, r.Method+" "+r.Path+" "+strings.Join(r.Scopes, " ")+"\n")
	}
	slices.Sort(lines)
	require.Equal(t, string(fixture.Read(t, "testdata/scopes.txt")), strings.Join(lines, ""))
}

// TestEveryRouteAsksForAToken has no token, and one that has every scope but the
// one that is needed.
func TestEveryRouteAsksForAToken(t *testing.T) {
	t.Parallel()
	a := tokenNode.node(t)
	admin := a.admin(t)
	made := map[string]caller{}
	without := func(scopes ...string) caller {
		who := strings.Join(scopes, " ")
		if _, ok := made[who]; !ok {
			others := slices.DeleteFunc(schemas.Scopes(), func(s string) bool { return slices.Contains(scopes, s) || s == schemas.ScopeAdmin })
			request, err := json.Marshal(schemas.TokenRequest{Name: "n", Scopes: others})
			require.NoError(t, err)
			made[who], _ = admin.grant(t, string(request))
		}
		return made[who]
	}
	for _, r := range guarded(a) {
		path := parameter.ReplaceAllString(r.Path, "nobody")
		forms := [][]string{
			nil,
			{"Authorization", "Bearer weir1_aaaaaaaaaaaaaaaa_" + strings.Repeat("A", 43)},
			{"Cookie", "token=" + admin.token + "; Authorization=Bearer " + admin.token},
			{"Authorization", "Basic " + admin.token},
			{"X-Api-Key", admin.token},
			{"Authorization", "Bearer " + admin.token + " x"},
		}
		if r.Path != schemas.RouteTasks {
			forms = forms[:1]
		}
		for _, header := range forms {
			text, h := a.asks(t, http.StatusUnauthorized, r.Method, path+"?access_token="+admin.token+"&token="+admin.token, "{}", header...)
			assert.Equal(t, "Bearer", h.Get("WWW-Authenticate"), path)
			assert.Contains(t, text, `"UNAUTHORIZED"`, path)
		}
		status, text, _ := without(r.Scopes...).do(t, r.Method, path, "{}")
		assert.Equal(t, http.StatusForbidden, status, "%s %s without %s: %s", r.Method, path, r.Scopes, text)
		assert.Contains(t, text, `"FORBIDDEN"`, path)
	}
	foreign, _ := admin.grant(t, `{"name":"f","tenant":"acme","scopes":["metrics:read","admin"]}`)
	callers := []caller{{App: a}, without(schemas.ScopeRulesWrite), admin, without(schemas.ScopeMetricsRead), foreign}
	for path, want := range map[string][]int{
		"/healthz": {200, 200, 200}, "/readyz": {200, 200, 200}, "/openapi.json": {200, 200, 200},
		"/sandbox": {401, 200, 200}, "/metrics": {404, 200, 200, 404, 404}, "/nowhere": {404, 404, 404},
	} {
		for i, status := range want {
			var header []string
			if callers[i].token != "" {
				header = []string{"Authorization", "Bearer " + callers[i].token}
			}
			got, _, _ := a.ask(t, http.MethodGet, path, "", header...)
			assert.Equal(t, status, got, "%s, %d", path, i)
		}
	}
}

// TestTenantsDoNotMeet: whatever one tenant has made, another is answered as if it
// were not there.
func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	a, upstream := tokenNode.node(t), okUpstream(t)
	meets := fresh("meets")
	mine, _ := a.admin(t).grant(t, `{"name":"a","tenant":"`+meets+`","scopes":["admin"]}`)
	other := tenant(t, "other")
	call := fmt.Sprintf(`{"method":"GET","url":"%s/x","request_id":"mine"}`, upstream)
	_, h := mine.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call)
	require.Equal(t, "mine", h.Get("Weir-Action-Id"))
	seq := a.letter(t, meets, "mine")
	bodies := map[string]string{
		"/v1/actions/:id/resolve": `{"effect":"applied"}`, "/v1/dead-letters/redrive": `{"sequence":{seq}}`, "/v1/rules/record": `{"action_id":"{id}"}`,
	}
	for _, r := range guarded(a) {
		text, named := bodies[r.Path]
		if !named && !strings.HasPrefix(r.Path, "/v1/actions/:id") {
			continue
		}
		send := func(id string, seq uint64) (int, string) {
			body := strings.NewReplacer("{id}", id, "{seq}", strconv.FormatUint(seq, 10)).Replace(text)
			status, answer, h := other.do(t, r.Method, parameter.ReplaceAllString(r.Path, id), body, "X-Request-ID", "same", "Accept", "application/json")
			assert.Empty(t, h.Get("Weir-Action-Id"))
			return status, strings.ReplaceAll(answer, id, "ID")
		}
		status, foreign := send("mine", seq)
		_, unknown := send("none", seq+100)
		assert.Equal(t, http.StatusNotFound, status, "%s %s: %s", r.Method, r.Path, foreign)
		assert.Equal(t, unknown, foreign, "%s %s", r.Method, r.Path)
	}
	for _, path := range []string{"/v1/actions", "/v1/evidence?action_id=mine", "/v1/dead-letters", "/v1/tokens"} {
		_, theirs, _ := other.do(t, http.MethodGet, path, "", "Accept", "application/json")
		assert.NotRegexp(t, `"(mine|meets-\d+)"`, theirs, path)
		_, ours, _ := mine.do(t, http.MethodGet, path, "", "Accept", "application/json")
		assert.Regexp(t, `"(mine|meets-\d+)"`, ours, path)
	}
	for _, path := range []string{
		"/v1/actions?tenant=" + meets, "/v1/actions?tenant=*", "/v1/stats?tenant=" + meets, "/v1/usage?tenant=" + meets,
		schemas.RouteOperations, schemas.RouteNodes, // of every tenant
	} {
		other.does(t, http.StatusForbidden, http.MethodGet, path, "")
	}
	other.does(t, http.StatusForbidden, http.MethodPost, "/v1/policy/reload", "")
	for _, named := range []string{meets, "*"} { // the operator may name them
		_, ours, _ := a.admin(t).do(t, http.MethodGet, "/v1/actions?tenant="+named, "")
		assert.Contains(t, ours, `"id":"mine"`, named)
	}
}

// TestAnOpenNodeAsksNobodyToSignIn: its console works for everybody on this machine.
func TestAnOpenNodeAsksNobodyToSignIn(t *testing.T) {
	t.Parallel()
	a := openNode.node(t)
	text, _ := a.asks(t, http.StatusOK, http.MethodGet, "/console/session", "")
	require.JSONEq(t, `{"mode":"open","signed_in":true,"tenant":"default","scopes":["admin"]}`, text)
	a.asks(t, http.StatusMethodNotAllowed, http.MethodPost, "/console/session", `{"token":"x"}`, "Weir-Console", "1")
}

// TestASessionHasItsTokensRights, on the console's own requests, and is told when its token may ask again.
func TestASessionHasItsTokensRights(t *testing.T) {
	t.Parallel()
	a := tokenNode.node(t)
	admin := a.admin(t)
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	signIn := func(request string) []string {
		_, made := admin.grant(t, request)
		_, h := a.asks(t, http.StatusOK, http.MethodPost, "/console/session", `{"token":"`+made.Secret+`"}`, own...)
		cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
		return append([]string{"Cookie", cookie}, own...)
	}
	reader := signIn(`{"name":"reader","scopes":["actions:read"]}`)
	text, _ := a.asks(t, http.StatusOK, http.MethodGet, "/console/session", "", reader...)
	require.Contains(t, text, `"scopes":["actions:read"]`)
	a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions", "", reader...)
	a.asks(t, http.StatusForbidden, http.MethodGet, "/v1/tokens", "", reader...)
	a.asks(t, http.StatusUnauthorized, http.MethodGet, "/v1/actions", "", reader[:2]...)
	rated := signIn(`{"name":"rated","scopes":["actions:read"],"rate":"1/h"}`)
	_, h := a.asks(t, http.StatusTooManyRequests, http.MethodGet, "/console/session", "", rated...)
	require.NotEmpty(t, h.Get("Retry-After"))
}

// TestNoCallerTakesADerivedID: every route that takes a request_id refuses one as Weir makes them, in the words of its
// surface. Where an id is read, one works.
func TestNoCallerTakesADerivedID(t *testing.T) {
	t.Parallel()
	of, upstream := fresh("reserves"), okUpstream(t)
	owner, _ := tokenNode.node(t).admin(t).grant(t, fmt.Sprintf(`{"name":"owner","tenant":%q,"scopes":["actions:write","actions:read","tasks:write"]}`, of))
	id := accept.NameOf(of, "/v1/execute", "", "order-7").ID
	for path, body := range map[string]string{
		"/v1/execute":          `{"type":"Http","request_id":"ID","args":{"method":"GET","url":"` + upstream + `"}}`,
		"/v1/plans":            `{"request_id":"ID","state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[]}}`,
		schemas.RouteRunSync:   `{"request_id":"ID","task_type":"ECHO"}`,
		schemas.RouteRunStream: `{"request_id":"ID","task_type":"ECHO"}`,
		schemas.RouteTasks:     `{"request_id":"ID","repo":"shop","description":"d"}`,
		schemas.RouteRepos:     `{"request_id":"ID","name":"shop"}`,
	} {
		for _, taken := range []string{id, "rul-1", "rdr-" + strings.Repeat("0", 64)} {
			status, text, h := owner.do(t, http.MethodPost, path, strings.ReplaceAll(body, "ID", taken))
			assert.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, status, "%s: %s", path, text)
			assert.Contains(t, text, "ids that begin with "+taken[:4]+" are made by Weir alone", path)
			assert.Empty(t, h.Get("Weir-Action-Id"), path)
		}
	}
	for _, replayed := range []string{"", "true"} {
		_, h := owner.does(t, http.StatusOK, http.MethodPost, "/v1/execute", get(upstream), "Idempotency-Key", "order-7")
		require.Equal(t, []string{id, replayed}, []string{h.Get("Weir-Action-Id"), h.Get("Idempotency-Replayed")})
	}
	owner.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+id+"/payload", "")
	owner.does(t, http.StatusConflict, http.MethodPost, "/v1/actions/"+id+"/cancel", "")
}

// TestConsoleLinksAreRoutes: a surface serves each path that the pages of the console request or link to.
func TestConsoleLinksAreRoutes(t *testing.T) {
	t.Parallel()
	var routes []string
	for _, s := range allSurfaces(tokenNode.node(t)) {
		for _, r := range s.Routes {
			routes = append(routes, r.Path)
		}
	}
	value := regexp.MustCompile(`\$\{[^{}]*\}`)
	link := regexp.MustCompile("[\"`](/(?:v1|agents|console|docs|readyz)\\b[^\"`?]*)|base \\+ \"(/[a-z]+)\"")
	seen := 0
	pages := os.DirFS("../../egress/console/ui/src")
	require.NoError(t, fs.WalkDir(pages, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".ts") && !strings.HasSuffix(name, ".tsx") {
			return err
		}
		text, err := fs.ReadFile(pages, name)
		for _, m := range link.FindAllStringSubmatch(value.ReplaceAllString(string(text), ":x"), -1) {
			seen++
			assert.True(t, slices.ContainsFunc(routes, func(route string) bool {
				return m[1] != "" && leads(m[1], route) || m[2] != "" && strings.HasSuffix(route, m[2])
			}), "%s: no route serves %s", name, m[0])
		}
		return err
	}))
	require.Greater(t, seen, 40)
}

// leads reports whether a path, of which :x stands for any value, is a route's.
func leads(path, route string) bool {
	have, want := strings.Split(path, "/"), strings.Split(route, "/")
	for i, w := range want {
		switch {
		case strings.HasPrefix(w, "*"):
			return true
		case i >= len(have), have[i] != w && have[i] != ":x" && !strings.HasPrefix(w, ":"):
			return false
		}
	}
	return len(have) == len(want)
}
