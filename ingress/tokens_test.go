package ingress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/fault"
	"weir/schemas"
)

// issuer remembers what it was asked.
type issuer struct {
	by      ingress.Identity
	req     schemas.TokenRequest
	revoked string
}

func (i *issuer) Create(_ context.Context, by ingress.Identity, req schemas.TokenRequest) (schemas.NewToken, error) {
	if req.Name == "bad" {
		return schemas.NewToken{}, fault.New(schemas.ValidationError, "at /name: no")
	}
	i.by, i.req = by, req
	return schemas.NewToken{Token: schemas.Token{ID: "t1", Name: req.Name}, Secret: "weir1_secret"}, nil
}

func (i *issuer) Revoke(_ context.Context, by ingress.Identity, id string) (schemas.Token, error) {
	if id == "unknown" {
		return schemas.Token{}, fault.New(schemas.NotFound, "there is no token with this id")
	}
	i.by, i.revoked = by, id
	return schemas.Token{ID: id, Status: "revoked"}, nil
}

// people are who may ask in these tests, by their bearer.
func people(r *http.Request) (ingress.Identity, error) {
	who := map[string]ingress.Identity{
		"Bearer root":    {ID: "id-root", Tenant: "a", Scopes: []string{"admin"}},
		"Bearer writer":  {ID: "id-writer", Tenant: "a", Scopes: []string{"actions:write"}},
		"Bearer limited": {ID: "id-limited", Tenant: "a", Scopes: []string{"actions:write"}, Entries: []string{"orders", "stock"}},
		"Bearer chief":   {ID: "id-chief", Tenant: "a", Scopes: []string{"admin"}, Entries: []string{"stock"}},
	}
	if i, ok := who[r.Header.Get("Authorization")]; ok {
		return i, nil
	}
	return ingress.Identity{}, fault.New(schemas.Unauthorized, "no")
}

func TestTokensAreForAdmins(t *testing.T) {
	t.Parallel()
	made := &issuer{}
	w := setup(t, func(c *ingress.Config) { c.Authenticate, c.Issuer = people, made })
	const body = `{"name":"ci","scopes":["actions:read"],"tenant":"b","entries":["orders"],"rate":"1/s","expires_in":"1h"}`
	for _, path := range []string{"/v1/tokens", "/v1/tokens/t1/revoke"} {
		require.Equal(t, http.StatusUnauthorized, w.do(t, post(path, body)).Code)
		require.Equal(t, http.StatusForbidden, w.do(t, post(path, body, "Authorization", "Bearer writer")).Code)
	}
	require.Zero(t, *made)

	a := w.do(t, post("/v1/tokens", body, "Authorization", "Bearer root"))
	require.Equal(t, http.StatusCreated, a.Code)
	require.Equal(t, "weir1_secret", a.body["secret"])
	require.Equal(t, "no-store", a.Header().Get("Cache-Control"))
	require.Equal(t, "id-root", made.by.ID)
	require.Equal(t, schemas.TokenRequest{
		Name: "ci", Tenant: "b", Scopes: []string{"actions:read"}, ExpiresIn: "1h", Entries: []string{"orders"}, Rate: "1/s",
	}, made.req)
	a = w.do(t, post("/v1/tokens/t1/revoke", "", "Authorization", "Bearer root"))
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "revoked", a.body["status"])
	require.Equal(t, "t1", made.revoked)
	require.Equal(t, http.StatusNotFound, w.do(t, post("/v1/tokens/unknown/revoke", "", "Authorization", "Bearer root")).Code)
	require.NotContains(t, w.logs.String(), "weir1_")
	require.Contains(t, w.logs.String(), `"surface":"tokens"`)

	for body, status := range map[string]int{
		`{"name":"bad","scopes":["admin"]}`:            422,
		`{"name":"a","scopes":["admin"],"admin":true}`: 422,
		`{"name":"a","name":"b","scopes":["admin"]}`:   400,
		`{"name":7,"scopes":["admin"]}`:                422,
		`{"name":"a","scopes":"admin"}`:                422,
		`{`:                                            400,
	} {
		require.Equal(t, status, w.do(t, post("/v1/tokens", body, "Authorization", "Bearer root")).Code, body)
	}
	require.Equal(t, 422, w.do(t, post("/v1/tokens/t1/revoke", `{"now":true}`, "Authorization", "Bearer root")).Code)
	require.Equal(t, 415, w.do(t, post("/v1/tokens", "name=a", "Authorization", "Bearer root", "Content-Type", "text/plain")).Code)
}

func TestActionsNameWhoAskedForThem(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *ingress.Config) { c.Authenticate = people })
	for bearer, entries := range map[string][]string{"writer": nil, "limited": {"orders", "stock"}} {
		for path, body := range map[string]string{"/v1/execute": okGet, "/v1/plans": okPlan} {
			w.do(t, post(path, body, "Authorization", "Bearer "+bearer))
			a := w.action(t, "a", w.responder.last(t).ref.ID)
			require.Equal(t, "id-"+bearer, a.Principal)
			require.Equal(t, entries, a.Entries)
		}
	}
}

func planFor(keys ...string) string {
	var decisions []string
	for _, k := range keys {
		decisions = append(decisions, `{"effect_ref":"e-`+k+`","target_state":{"url":"http://ok.example/","allowlist_key":"`+k+`"}}`)
	}
	return `{"state:env.snapshot":{},"artifact:proposed.plan":{"plan_id":"p","decisions":[` + strings.Join(decisions, ",") + `]}}`
}

// TestALimitedTokenNamesItsEntries: another one is refused before anything is
// stored, whether there is such an entry or not.
func TestALimitedTokenNamesItsEntries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, body string
		refused    bool
	}{
		"no key":      {"/v1/execute", `{"method":"GET","url":"http://ok.example/"}`, false},
		"its key":     {"/v1/execute", `{"method":"GET","url":"http://ok.example/","allowlist_key":"orders"}`, false},
		"another key": {"/v1/execute", `{"method":"GET","url":"http://ok.example/","allowlist_key":"admin"}`, true},

		"denied anyway": {"/v1/execute", `{"method":"GET","url":"http://evil.example/","allowlist_key":"admin"}`, true},
		"its plan":      {"/v1/plans", planFor("orders", "stock"), false},
		"another plan":  {"/v1/plans", planFor("orders", "admin"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(c *ingress.Config) { c.Authenticate = people })
			a := w.do(t, post(tc.path, tc.body, "Authorization", "Bearer limited"))
			if !tc.refused {
				require.Equal(t, http.StatusAccepted, a.Code, a.Body)
				return
			}
			a.refused(t, http.StatusForbidden, schemas.Forbidden)
			require.Zero(t, w.records(t))
			require.Equal(t, http.StatusAccepted, w.do(t, post(tc.path, tc.body, "Authorization", "Bearer writer")).Code, "another token may")
		})
	}
}

// TestRedriveWidensNothing: what is done again may use what both the one who
// asked first and the one who asks now may use.
func TestRedriveWidensNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old    []string
		key    string
		bearer string
		status int
		want   []string
	}{
		"by an admin":              {[]string{"orders"}, "", "root", 202, []string{"orders"}},
		"by a limited admin":       {nil, "", "chief", 202, []string{"stock"}},
		"of a wider one":           {[]string{"orders", "stock"}, "", "chief", 202, []string{"stock"}},
		"of a foreign one":         {[]string{"orders"}, "", "chief", 403, nil},
		"of a call with their key": {nil, "stock", "chief", 202, []string{"stock"}},
		"of a call with another":   {nil, "orders", "chief", 403, nil},
		"of a call, by an admin":   {nil, "orders", "root", 202, nil},
		"by no admin":              {nil, "", "writer", 403, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(c *ingress.Config) { c.Authenticate = people })
			seq := w.parked(t, schemas.Action{
				ID: "old", Tenant: "a", Kind: schemas.KindHTTP, IDSource: schemas.IDRequest, Fingerprint: "f", Entries: tc.old,
				AcceptedAt: time.Now(), Deadline: time.Now().Add(time.Hour),
				Payload: []byte(`{"method":"GET","url":"http://ok.example/","allowlist_key":"` + tc.key + `"}`),
			})
			a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":`+seq+`}`, "Authorization", "Bearer "+tc.bearer))
			require.Equal(t, tc.status, a.Code, a.Body)
			if tc.status != http.StatusAccepted {
				return
			}
			again := w.action(t, "a", a.Header().Get("Weir-Action-Id"))
			require.Equal(t, tc.want, again.Entries)
			require.Equal(t, "id-"+tc.bearer, again.Principal)
			require.Equal(t, "old", again.Supersedes)
		})
	}
}

func (w *world) parked(t *testing.T, a schemas.Action) (sequence string) {
	t.Helper()
	st, _, err := w.ledger.Claim(t.Context(), a)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed}}))
	return w.bury(t, schemas.DeadLetter{Tenant: a.Tenant, Kind: a.Kind, ActionID: a.ID, Code: schemas.Poison})
}

// bury puts a dead letter on the log.
func (w *world) bury(t *testing.T, letter schemas.DeadLetter) (sequence string) {
	t.Helper()
	data, err := json.Marshal(letter)
	require.NoError(t, err)
	seq, err := w.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(letter), Data: data})
	require.NoError(t, err)
	return strconv.FormatUint(seq, 10)
}
