package app

import (
	"context"
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
	"github.com/tidwall/gjson"

	"weir/cmd/cli"
	"weir/egress"
	"weir/internal/config"
	"weir/internal/weirtest/table"
	"weir/schemas"
	published "weir/schemas/json"
)

// served are the paths of the routes of a node, by the method and path of the OpenAPI document, which has
// a route once that is served below several base URLs; and the scopes of each.
func served(t *testing.T, documented map[string]gjson.Result) (paths, scopes map[string][]string) {
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
			name := r.Method + " " + below(documented, path)
			paths[name] = append(paths[name], path)
			scopes[name] = r.Scopes
		}
	}
	return paths, scopes
}

// below is a path without the base URL that the document leaves out.
func below(documented map[string]gjson.Result, path string) string {
	for rest := path; rest != ""; {
		if documented[rest].Exists() {
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

var reference = regexp.MustCompile(`"#/components/schemas/([A-Za-z0-9]+)"`)

// schemaNames are the components that contents refer to.
func schemaNames(content gjson.Result) string {
	var names []string
	media := content.Map()
	for _, kind := range slices.Sorted(maps.Keys(media)) {
		for _, m := range reference.FindAllStringSubmatch(media[kind].Get("schema").Raw, -1) {
			names = append(names, "`"+m[1]+"`")
		}
	}
	return strings.Join(slices.Compact(names), " or ")
}

// component is the component that a part of the document refers to, or that part itself.
func component(doc, part gjson.Result) (found gjson.Result, shared bool) {
	ref := part.Get("$ref").Str
	if ref == "" {
		return part, false
	}
	return doc.Get(strings.ReplaceAll(strings.TrimPrefix(ref, "#/"), "/", ".")), true
}

// routesPage lists the routes of the OpenAPI document. They are those of the surfaces, and no others.
func routesPage(t *testing.T) string {
	t.Helper()
	doc := gjson.ParseBytes(published.OpenAPI())
	all := doc.Get("paths").Map()
	paths, scopes := served(t, all)
	sections, documented := map[string]string{}, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		operations := all[path].Map()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			if method == "parameters" {
				continue
			}
			op, name := operations[method], strings.ToUpper(method)+" "+path
			if !strings.HasPrefix(path, schemas.RouteGit+"/") {
				documented[name] = true
			}
			tag := op.Get("tags.0").Str
			require.NotEmpty(t, tag, name)
			text := fmt.Sprintf("### `%s`\n\n%s %s\n\n", name, sentence(op.Get("summary").Str), sentence(op.Get("description").Str))
			if of := scopes[name]; len(of) > 0 {
				text += fmt.Sprintf("- scope: `%s`\n", strings.Join(of, "` or `"))
			}
			if also := slices.DeleteFunc(slices.Clone(paths[name]), func(p string) bool { return p == path }); len(also) > 0 {
				text += fmt.Sprintf("- also served at `%s`\n", strings.Join(also, "`, `"))
			}
			text += parametersText(doc, append(operations["parameters"].Array(), op.Get("parameters").Array()...))
			if body := schemaNames(op.Get("requestBody.content")); body != "" {
				text += "- body: " + body + "\n"
			}
			sections[tag] += text + "- answers: " + answers(doc, op.Get("responses").Map()) + "\n\n"
		}
	}
	for name := range paths {
		assert.True(t, documented[name], "%s is served, and the OpenAPI document lacks it", name)
	}
	for name := range documented {
		assert.Contains(t, paths, name, "the OpenAPI document has it, and no node serves it")
	}
	var b strings.Builder
	for _, tag := range doc.Get("tags").Array() {
		name := tag.Get("name").Str
		fmt.Fprintf(&b, "## %s\n\n%s\n\n%s", strings.ToUpper(name[:1])+name[1:], sentence(tag.Get("description").Str), sections[name])
	}
	b.WriteString("## Common parameters\n\n")
	shared := doc.Get("components.parameters").Map()
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		b.WriteString(parametersText(doc, []gjson.Result{shared[name]}))
	}
	return b.String()
}

// parametersText lists parameters, those that routes share by their names alone.
func parametersText(doc gjson.Result, parameters []gjson.Result) string {
	var lines, common []string
	for _, parameter := range parameters {
		p, shared := component(doc, parameter)
		if shared {
			common = append(common, "`"+p.Get("name").Str+"`")
			continue
		}
		lines = append(lines, fmt.Sprintf("- %s `%s`: %s\n", p.Get("in").Str, p.Get("name").Str, prose(p.Get("description").Str)))
	}
	if len(common) > 0 {
		lines = append(lines, fmt.Sprintf("- common parameters: %s\n", strings.Join(common, ", ")))
	}
	return strings.Join(lines, "")
}

// answers are the statuses of an operation, with the schema of each group of them.
func answers(doc gjson.Result, responses map[string]gjson.Result) string {
	var b strings.Builder
	last := ""
	for i, status := range slices.Sorted(maps.Keys(responses)) {
		r, _ := component(doc, responses[status])
		of := schemaNames(r.Get("content"))
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
