package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/egress"
	"weir/internal/config"
	"weir/internal/weirtest/table"
	"weir/schemas"
	published "weir/schemas/json"
)

// served are the paths of the routes of a node, by the method and path of the OpenAPI document, which has
// a route once that is served below several base URLs; and the scopes of each.
func served(t *testing.T, doc *apiDocument) (paths, scopes map[string][]string) {
	t.Helper()
	paths, scopes = map[string][]string{}, map[string][]string{}
	parameter := regexp.MustCompile(`[:*]([a-z]+)`)
	for _, s := range allSurfaces(tokenNode.node(t)) {
		if s.Name == "console" || s.Name == "docs" || s.Name == "git" {
			continue // pages, and what git's clients ask for
		}
		for _, r := range s.Routes {
			if r.Method == http.MethodHead {
				continue // GET again
			}
			path := parameter.ReplaceAllString(r.Path, "{$1}")
			name := r.Method + " " + doc.below(path)
			paths[name] = append(paths[name], path)
			scopes[name] = r.Scopes
		}
	}
	return paths, scopes
}

// below is a path without the base URL that the document leaves out.
func (d *apiDocument) below(path string) string {
	for rest := path; rest != ""; {
		if d.Paths[rest] != nil {
			return rest
		}
		next := strings.IndexByte(rest[1:], '/')
		if next < 0 {
			break
		}
		rest = rest[1+next:]
	}
	return path
}

// apiDocument is the part of an OpenAPI document that the page shows.
type apiDocument struct {
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Parameters map[string]apiParameter `json:"parameters"`
		Responses  map[string]apiResponse  `json:"responses"`
	} `json:"components"`
}

type apiOperation struct {
	Summary     string         `json:"summary"`
	Description string         `json:"description"`
	Tags        []string       `json:"tags"`
	Parameters  []apiParameter `json:"parameters"`
	RequestBody struct {
		Content map[string]apiContent `json:"content"`
	} `json:"requestBody"` //nolint:tagliatelle // a member of OpenAPI
	Responses map[string]apiResponse `json:"responses"`
}

type apiParameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
}

type apiResponse struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Content     map[string]apiContent `json:"content"`
}

type apiContent struct {
	Schema json.RawMessage `json:"schema"`
}

var reference = regexp.MustCompile(`"#/components/schemas/([A-Za-z0-9]+)"`)

// schemaNames are the components that contents refer to.
func schemaNames(content map[string]apiContent) string {
	var names []string
	for _, media := range slices.Sorted(maps.Keys(content)) {
		for _, m := range reference.FindAllSubmatch(content[media].Schema, -1) {
			names = append(names, "`"+string(m[1])+"`")
		}
	}
	return strings.Join(slices.Compact(names), " or ")
}

// routesPage lists the routes of the OpenAPI document. They are those of the surfaces, and no others.
func routesPage(t *testing.T) string {
	t.Helper()
	var doc apiDocument
	require.NoError(t, json.Unmarshal(published.OpenAPI(), &doc))
	paths, scopes := served(t, &doc)
	sections, documented := map[string][]string{}, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		shared := []apiParameter{}
		if raw, ok := doc.Paths[path]["parameters"]; ok {
			require.NoError(t, json.Unmarshal(raw, &shared))
		}
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			if method == "parameters" {
				continue
			}
			var op apiOperation
			require.NoError(t, json.Unmarshal(doc.Paths[path][method], &op))
			name := strings.ToUpper(method) + " " + path
			if !strings.HasPrefix(path, schemas.RouteGit+"/") {
				documented[name] = true
			}
			op.Parameters = append(shared, op.Parameters...)
			require.NotEmpty(t, op.Tags, name)
			sections[op.Tags[0]] = append(sections[op.Tags[0]], routeText(&doc, &op, name, path, paths[name], scopes[name]))
		}
	}
	for name := range paths {
		assert.True(t, documented[name], "%s is served, and the OpenAPI document lacks it", name)
	}
	for name := range documented {
		assert.Contains(t, paths, name, "the OpenAPI document has it, and no node serves it")
	}
	var b strings.Builder
	for _, tag := range doc.Tags {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n%s", strings.ToUpper(tag.Name[:1])+tag.Name[1:], sentence(tag.Description), strings.Join(sections[tag.Name], ""))
	}
	b.WriteString("## Common parameters\n\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Parameters)) {
		p := doc.Components.Parameters[name]
		fmt.Fprintf(&b, "- %s `%s`: %s\n", p.In, p.Name, prose(p.Description))
	}
	return b.String()
}

// routeText is what the page says of one route.
func routeText(doc *apiDocument, op *apiOperation, name, path string, paths, scopes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### `%s`\n\n%s %s\n\n", name, sentence(op.Summary), sentence(op.Description))
	if len(scopes) > 0 {
		fmt.Fprintf(&b, "- scope: `%s`\n", strings.Join(scopes, "` or `"))
	}
	if also := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p == path }); len(also) > 0 {
		fmt.Fprintf(&b, "- also served at `%s`\n", strings.Join(also, "`, `"))
	}
	var shared []string
	for _, p := range op.Parameters {
		if p.Ref != "" {
			shared = append(shared, "`"+doc.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]].Name+"`")
			continue
		}
		fmt.Fprintf(&b, "- %s `%s`: %s\n", p.In, p.Name, prose(p.Description))
	}
	if len(shared) > 0 {
		fmt.Fprintf(&b, "- common parameters: %s\n", strings.Join(shared, ", "))
	}
	if body := schemaNames(op.RequestBody.Content); body != "" {
		fmt.Fprintf(&b, "- body: %s\n", body)
	}
	fmt.Fprintf(&b, "- answers: %s\n\n", answers(doc, op))
	return b.String()
}

// answers are the statuses of an operation, with the schema of each group of them.
func answers(doc *apiDocument, op *apiOperation) string {
	var b strings.Builder
	last := ""
	for i, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		if r.Ref != "" {
			r = doc.Components.Responses[r.Ref[strings.LastIndexByte(r.Ref, '/')+1:]]
		}
		of := schemaNames(r.Content)
		switch {
		case i == 0:
		case of == last:
			b.WriteString(", ")
		default:
			b.WriteString(strings.TrimRight(" "+last, " ") + "; ")
		}
		b.WriteString(status)
		last = of
	}
	return strings.TrimSpace(b.String() + " " + last)
}

// TestRoleCommands end as mistakes of usage where nothing can come of them, and say what to do.
func TestRoleCommands(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"ingress"}, "name the NATS cluster with --nats"},
		{[]string{"worker"}, "name the NATS cluster with --nats"},
		{[]string{"egress", "--nats", "http://h"}, "nats.url: is not a list of URLs"},
		{[]string{"worker", "--nats", "nats://h", "--kinds", "http"}, "unknown flag: --kinds"},
		{[]string{"worker", "x"}, "takes no arguments"},
		{[]string{"serve", "--creds", "x"}, "nats.creds: is for an external cluster"},
	} {
		code, out, errs := weir(t, []string{"HOME=/nowhere"}, tc.args...)
		assert.Equal(t, cli.ExitUsage, code, tc.args)
		assert.Contains(t, errs, tc.says, tc.args)
		assert.Empty(t, out, tc.args)
	}
}

func TestARoleNeedsALogOfOthers(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("test", []byte("listen: 127.0.0.1:0\ndata: x\n"), nil, nil)
	require.NoError(t, err)
	_, err = New(t.Context(), Options{Config: cfg, Role: RoleWorker, Log: io.Discard})
	require.ErrorContains(t, err, "set nats.url", "an embedded log is no log of others")
}

// nowhere is a URL that nothing listens at.
const nowhere = "nats://127.0.0.1:1"

// waitingApp is one whose log is not there.
func waitingApp(t *testing.T, role Role, extra string) (a *App, end func() error) {
	t.Helper()
	cfg, err := config.Parse("test", []byte("listen: 127.0.0.1:0\nnats: {url: '"+nowhere+"'}\n"+extra), nil, nil)
	require.NoError(t, err)
	a, err = New(t.Context(), Options{Config: cfg, Role: role, Log: io.Discard})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- a.Start(ctx) }()
	stopped := false
	end = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		require.Error(t, <-started) // that it was canceled, or that its last try failed
		return a.Stop(context.WithoutCancel(t.Context()))
	}
	t.Cleanup(func() { assert.NoError(t, end()) })
	return a, end
}

// TestNodeWithoutItsLog is alive and says why it is not ready; all else may be asked again.
func TestNodeWithoutItsLog(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{RoleAll, RoleEgress} {
		a, end := waitingApp(t, role, "")
		a.asks(t, http.StatusOK, http.MethodGet, "/healthz", "")
		for _, path := range []string{"/readyz", "/health/ready"} {
			body, h := a.asks(t, http.StatusServiceUnavailable, http.MethodGet, path, "")
			require.NotEmpty(t, h.Get("Retry-After"), path)
			require.Contains(t, body, `"reasons":["the log `, path)
			require.Contains(t, body, `"checks":{"log":"failed"}`, path)
			require.Equal(t, role != RoleAll, strings.Contains(body, `"role":"`+string(role)+`"`), body)
		}
		for _, path := range []string{"/ready", "/api/ready"} {
			status, body, h := a.ask(t, http.MethodGet, path, "")
			require.Equal(t, []any{http.StatusServiceUnavailable, "Not ready"}, []any{status, body}, path)
			require.NotEmpty(t, h.Get("Retry-After"), path)
		}
		for path, word := range map[string]string{
			"/v1/execute":                 `"variant":"Request"`,
			schemas.RouteRunSync:          `"outputs":{}`,
			"/v1" + schemas.RouteChat:     `"metadata":{"code":"UNAVAILABLE"`,
			schemas.RouteAgentAPI:         `"ok":false`,
			"/v1/plans":                   `"code":"UNAVAILABLE"`,
			"/v1/actions/some/cancel":     `"retryable":true`,
			"/there/is/nothing/like/this": `"code":"UNAVAILABLE"`,
		} {
			body, h := a.asks(t, http.StatusServiceUnavailable, http.MethodPost, path, `{}`)
			require.Equal(t, "2", h.Get("Retry-After"), path)
			require.Contains(t, body, word, path)
		}
		require.NoError(t, end())
	}
}

// routesOf are the node's routes. The first request to an engine changes them, so it must not be
// another test's.
func routesOf(t *testing.T, a *App) gin.RoutesInfo {
	t.Helper()
	engine, ok := a.http.surfaces.(*gin.Engine)
	require.True(t, ok)
	engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/nothing", http.NoBody))
	return engine.Routes()
}

// TestRoutesElsewhere: each role answers for every route that there is, and those of
// another say where to go in the words of their surface.
func TestRoutesElsewhere(t *testing.T) {
	t.Parallel()
	whole := tokenNode.node(t) // an open node signs nobody in
	all := map[string]bool{}
	for _, r := range routesOf(t, whole) {
		all[r.Method+" "+r.Path] = true
	}
	engine := gin.New()
	egress.Mount(engine, []egress.Surface{whole.service()})
	a := &App{role: RoleWorker, metrics: whole.metrics}
	a.descriptions().misdirected(engine)
	for _, r := range engine.Routes() {
		require.True(t, all[r.Method+" "+r.Path], "%s %s is no route", r.Method, r.Path)
		delete(all, r.Method+" "+r.Path)
	}
	require.Empty(t, all, "routes that the list of a room lacks")
}

func answerOf(node string, done bool, version string) nodeAnswer {
	return nodeAnswer{schemas.NodeReport{Node: node, Role: "worker", Version: version}, done}
}

// TestGather waits for whoever has said to be there, and for nobody longer than it takes.
func TestGather(t *testing.T) {
	t.Parallel()
	type testCase struct {
		say  func(answers chan<- nodeAnswer)
		want []string
		took time.Duration
	}
	table.Run(t, map[string]testCase{
		"nobody": {func(chan<- nodeAnswer) {}, []string{}, calling},
		"all are quick": {func(answers chan<- nodeAnswer) {
			for _, node := range []string{"b", "a"} {
				answers <- answerOf(node, false, "")
				answers <- answerOf(node, true, "v1")
			}
		}, []string{"a v1 ", "b v1 "}, calling},
		"one is slow": {func(answers chan<- nodeAnswer) {
			answers <- answerOf("a", false, "")
			time.Sleep(7 * time.Second)
			answers <- answerOf("a", true, "v2")
		}, []string{"a v2 "}, 7 * time.Second},
		"one dies": {func(answers chan<- nodeAnswer) {
			answers <- answerOf("a", false, "")
			answers <- answerOf("b", true, "v2") // its first word was lost, or comes late
			answers <- answerOf("b", false, "")
		}, []string{"a  it has not reported its result in time", "b v2 "}, telling},
	}, func(t *testing.T, tt testCase) {
		synctest.Test(t, func(t *testing.T) {
			answers, start := make(chan nodeAnswer), time.Now()
			go tt.say(answers)
			got := []string{}
			for _, n := range gather(t.Context(), answers, calling) {
				got = append(got, n.Node+" "+n.Version+" "+n.Error)
			}
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.took, time.Since(start))
		})
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.Empty(t, gather(ctx, make(chan nodeAnswer), calling))
		require.Equal(t, time.Second, time.Since(start))
	})
}
