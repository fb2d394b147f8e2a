//go:build e2e

package corpus_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// passedOver lists every row that does not run, with the reason. A row that is not
// here runs; if the harness lacks something that it names, it fails.
var passedOver = map[string]string{
	"IN-AUTH-023": noApprovals,
	"IN-APPR-001": noApprovals,
	"IN-APPR-003": noApprovals,
	"IN-HOOK-001": noWebhooks,
	"IN-HOOK-003": noWebhooks,
	"IN-HOOK-005": noWebhooks,
	"IN-HOOK-007": noWebhooks,
	"IN-HOOK-009": noWebhooks,
	"IN-HOOK-011": noWebhooks,
	"IN-HOOK-013": noWebhooks,
}

const (
	noApprovals = "Weir has no approvals: the route answers 404"
	noWebhooks  = "Weir has no webhooks: the route answers 404"
)

// corrected lists the rows whose expected answer a later page of the protocols corrects: they
// are answered with 2xx.
var corrected = map[string]string{
	"IN-AUTH-007.task": seesItsEnd,
	"IN-AUTH-025.task": seesItsEnd,
	"IN-PATH-005.task": "agents join paths with a slash at the end",
}

const seesItsEnd = "the token of a task that has ended may see how it ended"

// isPassedOver reports whether a row is listed.
func isPassedOver(id string) bool {
	_, listed := passedOver[id]
	return listed
}

// mayRun skips a row that is passed over, and fails one that names what the harness lacks.
func mayRun(t *testing.T, id, lacks string) {
	t.Helper()
	reason, listed := passedOver[id]
	switch {
	case listed && lacks == "":
		t.Fatalf("%s can run; remove it from passedOver", id)
	case listed && reason == "":
		t.Fatalf("%s is passed over without a reason; give one", id)
	case listed:
		t.Skip("passed over: " + reason)
	case lacks != "":
		t.Fatalf("the harness has no %s; add it, or list %s in passedOver with the reason", lacks, id)
	}
}

// TestPassedOver prints the rows that are passed over, and requires that each is a row
// of the corpora and has a reason.
func TestPassedOver(t *testing.T) {
	t.Parallel()
	if os.Getenv(otherInbound) != "" || os.Getenv(otherOutbound) != "" {
		return // the list is about our rows
	}
	times := map[string]int{}
	for _, r := range readOutbound(t) {
		times[r.ID]++
	}
	for _, r := range readInbound(t) {
		times[r.ID]++
	}
	for id, n := range times {
		assert.Equal(t, 1, n, "%s stands in the corpora more than once", id)
	}
	for _, name := range slices.Sorted(maps.Keys(corrected)) {
		t.Logf("%s: answered with 2xx: %s", name, corrected[name])
		id, _, _ := strings.Cut(name, ".")
		assert.Contains(t, times, id, "corrected names %s, which is no row", name)
	}
	for _, id := range slices.Sorted(maps.Keys(passedOver)) {
		t.Logf("%s: %s", id, passedOver[id])
		assert.Contains(t, times, id, "passedOver names %s, which is no row", id)
		assert.NotEmpty(t, passedOver[id], "%s is passed over without a reason", id)
	}
}
