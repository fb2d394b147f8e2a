package program

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

// Client sends requests to a Weir, with a token if it has one.
type Client struct {
	Base, Token string
	// HTTP sends them; nil: that of net/http.
	HTTP *http.Client
}

// Answer is one with its body read.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Client is one without a token.
func (p *Program) Client() Client { return Client{Base: p.URL} }

// ID is that of the action.
func (a Answer) ID() string { return a.Header.Get("Weir-Action-Id") }

// As is a client of the same Weir with another token.
func (c Client) As(token string) Client {
	c.Token = token
	return c
}

// Try sends a request and reads the answer, as Ask of this package does.
func (c Client) Try(ctx context.Context, method, path, body string, header ...string) (Answer, error) {
	if c.Token != "" {
		header = append([]string{"Authorization", "Bearer " + c.Token}, header...)
	}
	resp, text, err := askBy(ctx, cmp.Or(c.HTTP, http.DefaultClient), method, c.Base+path, body, header...) //nolint:bodyclose,forbidigo // it is read; a client of Weir, from outside
	if err != nil {
		return Answer{}, err
	}
	return Answer{resp.StatusCode, resp.Header, text}, nil
}

// Ask is Try for a test, which fails where there is no answer.
func (c Client) Ask(tb testing.TB, method, path, body string, header ...string) Answer {
	tb.Helper()
	a, err := c.Try(tb.Context(), method, path, body, header...)
	require.NoError(tb, err)
	return a
}

// Must is the body of an answer with a status.
func (c Client) Must(tb testing.TB, status int, method, path, body string, header ...string) string {
	tb.Helper()
	a := c.Ask(tb, method, path, body, header...)
	require.Equal(tb, status, a.Status, "%s %s: %.4000s", method, path, a.Body)
	return a.Body
}

// Get reads a document.
func Get[T any](tb testing.TB, c Client, path string) T {
	tb.Helper()
	return fixture.Decode[T](tb, c.Must(tb, http.StatusOK, http.MethodGet, path, "", "Accept", "application/json"))
}

// Items is the page of a list.
func Items[T any](tb testing.TB, c Client, path string) []T {
	tb.Helper()
	return Get[schemas.Page[T]](tb, c, path).Items
}

// Evidence are the payloads of records of a kind; more is added to the query.
func Evidence[T any](tb testing.TB, c Client, kind, more string) []T {
	tb.Helper()
	items := Items[schemas.Evidence](tb, c, "/v1/evidence?limit=1000&kind="+url.QueryEscape(kind)+more)
	all := make([]T, len(items))
	for i, e := range items {
		all[i] = fixture.Decode[T](tb, string(e.Payload))
	}
	return all
}

// Operate carries out an operation of the agent API that succeeds, and reads its data.
func Operate[T any](tb testing.TB, c Client, operation string, args any) T {
	tb.Helper()
	body, err := json.Marshal(map[string]any{"request_id": "of the test", "operation": operation, "args": args})
	require.NoError(tb, err)
	return fixture.Decode[struct{ Data T }](tb, c.Must(tb, http.StatusOK, http.MethodPost, schemas.RouteAgentAPI, string(body))).Data
}

// Etag is that of the tenant's rules.
func (c Client) Etag(tb testing.TB) string {
	tb.Helper()
	return Operate[struct {
		Etag string `json:"rules_etag"`
	}](tb, c, schemas.OpStatus, map[string]any{}).Etag
}

// post sends a document that makes something, and reads what was made.
func post[T any](tb testing.TB, c Client, path string, doc any) T {
	tb.Helper()
	body, err := json.Marshal(doc)
	require.NoError(tb, err)
	return fixture.Decode[T](tb, c.Must(tb, http.StatusCreated, http.MethodPost, path, string(body)))
}

// MakeToken makes a token.
func (c Client) MakeToken(tb testing.TB, req schemas.TokenRequest) schemas.NewToken {
	tb.Helper()
	return post[schemas.NewToken](tb, c, "/v1/tokens", req)
}

// MakeRepo makes an empty repository, or one with further members.
func (c Client) MakeRepo(tb testing.TB, doc map[string]any) {
	tb.Helper()
	post[any](tb, c, schemas.RouteRepos, doc)
}

// MakeTask files a task.
func (c Client) MakeTask(tb testing.TB, doc map[string]any) schemas.NewTask {
	tb.Helper()
	return post[schemas.NewTask](tb, c, schemas.RouteTasks, doc)
}

// Task is a task as its people see it.
func (c Client) Task(tb testing.TB, id string) schemas.TaskView {
	tb.Helper()
	return Get[schemas.TaskView](tb, c, schemas.RouteTasks+"/"+id)
}
