//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
)

const (
	// seats and rate are the limits that a deep queue is under.
	seats = 8
	rate  = 100
	// behind is by how many seconds a call may be late without another booking; one second's
	// calls more may begin at once. See docs/how-to/destinations.md.
	behind = 5 + 1
)

// TestShares: a tenant has far more accepted than is under way, and all of its calls hang; a
// worker and a server die. What another tenant asks for ends nevertheless, and the limits of
// the entry hold. What is bounded is counted: no share is a matter of time.
func TestShares(t *testing.T) { //nolint:paralleltest // it has the machine to itself
	r := row{number: "F47", title: "a tenant's queue under limits hangs, and a server and a worker are killed; another tenant's work goes on"}
	if !*all || !chosen(r.number, r.title) {
		t.Log("form: none without -faults.all; see TestFaults")
		return
	}
	admin := filepath.Join(t.TempDir(), "admin.token")
	rig := newEnv(t, kit{
		more:   fmt.Sprintf("auth: {mode: tokens, rate: 100000/s, admin_token_file: %q}\nworkers: {slots: 16}\ndeadline: {http: 4m}\n", admin),
		policy: limited,
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tokens := map[string]string{}
	for _, tenant := range []string{"deep", "light"} {
		token, err := rig.token(ctx, admin, tenant)
		require.NoError(t, err)
		tokens[tenant] = token
	}
	r.load = callers.Config{Tenant: "light", Token: tokens["light"], Under: "light", Only: []string{callers.Get, callers.Post, callers.Denied}}
	r.fault = func(ctx context.Context, s *fixture) { shares(ctx, s, tokens["deep"]) }
	t.Run(r.slug(), newFixture(rig, r, chance(t), 0).test)
}

// limited is a policy whose entry plain has limits. No call times out while they hang.
func limited(target *callers.Target) string {
	return fmt.Sprintf(`policy:
  timeout: 2m
  allowlist:
    - {name: plain, url_prefix: "%[1]s/plain/", methods: [GET, PUT, POST], network: loopback, limits: {rate: %[2]d/s, concurrency: %[3]d}}
    - {name: keyed, url_prefix: "%[1]s/keyed/", methods: [POST], network: loopback, upstream_idempotency: {ttl: 1h}}
    - {name: light, url_prefix: "%[1]s/light/", methods: [GET, POST], network: loopback}
`, target.URL, rate, seats)
}

// token makes one for a tenant.
func (r *env) token(ctx context.Context, admin, tenant string) (string, error) {
	first, err := os.ReadFile(admin)
	if err != nil {
		return "", err
	}
	body := fmt.Sprintf(`{"name":%[1]q,"tenant":%[1]q,"scopes":["actions:write","actions:read"],"rate":"100000/s"}`, tenant)
	status, text := fetch(ctx, http.MethodPost, r.writers()[0].url()+"/v1/tokens", body, "Authorization", "Bearer "+strings.TrimSpace(string(first)))
	if status != http.StatusCreated {
		return "", fmt.Errorf("no token for %s: %d %s", tenant, status, text)
	}
	token := member(text, "secret")
	for _, n := range r.that(func(o role) bool { return o.write || o.read }) {
		err := until(ctx, n.name+" to know the token of "+tenant, func() bool {
			status, _ := fetch(ctx, http.MethodGet, n.url()+"/v1/actions/none", "", "Authorization", "Bearer "+token)
			return status != http.StatusUnauthorized && status != 0
		})
		if err != nil {
			return "", err
		}
	}
	return token, nil
}

// shares fills a tenant's queue with calls that hang, and looks at what of the other's ends.
func shares(ctx context.Context, s *fixture, token string) {
	cfg := callers.Config{Name: "deep-" + s.slug(), Tenant: "deep", Token: token}
	deep := s.env.crowd(cfg)
	s.beside = append(s.beside, deep)
	s.target.Hold(cfg.Name)
	s.queue(ctx, deep, 1000, 0)
	waits, _, err := s.log.backlog(ctx)
	s.must(err)
	s.inject("queued", int(waits))
	s.light(ctx, "while the other's queue hangs")
	if n := s.target.Most("plain"); n > seats {
		s.t.Fatalf("%d calls were under way under an entry with %d seats", n, seats)
	}
	s.cluster.Servers[s.chance.IntN(len(s.cluster.Servers))].Kill()
	s.workers()[0].kill()
	s.inject("processes killed", 2)
	s.light(ctx, "while it hangs, and a worker and a server are dead")
	s.must(s.heal(ctx)) // it releases what hangs
	s.paced(ctx, cfg.Name)
	s.must(deep.Stop())
}

// light waits for ends of the tenant that has little, while every call of the other hangs.
func (s *fixture) light(ctx context.Context, what string) {
	told := s.crowd.Counts().Ended
	s.goOn(ctx, "the light tenant's work "+what)
	s.inject("ended of the other tenant while all of it hung", s.crowd.Counts().Ended-told)
}

// paced waits until the queue is worked off, and holds how many calls began under the entry
// against its rate. Where time goes by without a call, the bound is only wider.
func (s *fixture) paced(ctx context.Context, name string) {
	began := func() int {
		n := 0
		for _, h := range s.target.Hits(name) {
			if !strings.Contains(h.Mark, "-"+callers.Keyed+"-") {
				n++
			}
		}
		return n
	}
	before, begun := began(), time.Now()
	s.must(s.crowd.Stop()) // or there would always be something
	left, err := s.log.drained(ctx)
	s.must(err)
	n, most := began()-before, int(rate*(time.Since(begun).Seconds()+behind))
	if n > most {
		s.t.Fatalf("%d calls began under a rate of %d a second, and %d is the most by now", n, rate, most)
	}
	s.inject("calls begun under the rate", n)
	if left.Backlog > 0 {
		s.t.Fatalf("the queue is not worked off: %+v", left)
	}
	s.crowd.Start(ctx)
}
