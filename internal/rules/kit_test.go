package rules

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/capture"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newShelf keeps 64 values of each key, as the broker does.
func newShelf() *bucket.Bucket {
	s := bucket.New()
	s.Keep = 64
	return s
}

// node starts a keeper that the test's end stops.
func node(t *testing.T, s Store, cfg Config) *Keeper {
	t.Helper()
	k := New(s, cfg)
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

// rule is a mock that is good.
func rule(id string) schemas.Rule {
	return schemas.Rule{
		ID: id, Group: schemas.DefaultGroup, Type: schemas.RuleMock, Enabled: true,
		Match:  schemas.RuleMatch{URLPattern: "https://api.example.com/" + id, Method: "ANY"},
		Action: schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`{"n":1.50,"s":"<&>"}`), Status: 200},
	}
}

func doc(rules ...schemas.Rule) schemas.RuleSet {
	return schemas.RuleSet{GlobalActive: true, Rules: rules, By: "action", At: time.Unix(1, 0).UTC()}
}

func (k *Keeper) put(t *testing.T, tenant string, d schemas.RuleSet, revision uint64) Snapshot {
	t.Helper()
	s, err := k.Put(t.Context(), tenant, d, revision)
	require.NoError(t, err)
	return s
}

// force is the etag of the set that is in force, empty for none.
func (k *Keeper) force(t *testing.T, tenant string) string {
	t.Helper()
	set, _, err := k.InForce(tenant)
	require.NoError(t, err)
	return set.Etag()
}

// opens counts the sets of each tenant that a keeper opens from now on.
func (k *Keeper) opens() (of func(tenant string) int) {
	var mu sync.Mutex
	n := map[string]int{}
	k.open = func(tenant string, r schemas.Record) (Snapshot, error) {
		mu.Lock()
		n[tenant]++
		mu.Unlock()
		return open(tenant, r)
	}
	return func(tenant string) int { mu.Lock(); defer mu.Unlock(); return n[tenant] }
}

func many(n int) (all []schemas.Rule) {
	for i := range n {
		all = append(all, rule("r"+strconv.Itoa(i)))
	}
	return all
}

// pass lets a clock of a bubble run.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// lines is a logger and what it wrote.
func lines() (*slog.Logger, func() string) {
	var b capture.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), b.String
}
