package access_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/access"
	"weir/schemas"
)

const partitions = 2

var layout = schemas.Layout{Partitions: partitions}

// only requires that these rules of the listed roles cover a subject, and of no others. Serve has what
// the three that it combines have.
func only(t *testing.T, subject string, rules func(access.Permissions) []access.Rule, roles []access.Role) {
	t.Helper()
	for _, r := range access.Roles() {
		want := slices.Contains(roles, r)
		if r == access.Serve {
			want = slices.ContainsFunc(roles, func(r access.Role) bool { return r != access.Provisioner })
		}
		require.Equal(t, want, access.CoveredBy(subject, access.Subjects(rules(access.Of(r, partitions)))), "%s %s", r, subject)
	}
}

// TestWhoWritesWhat is the promise of the roles: work is made at the door alone, done and told of
// by workers alone, and nothing is written by who reads.
func TestWhoWritesWhat(t *testing.T) {
	t.Parallel()
	ref := schemas.Ref{Tenant: "acme.inc", Kind: schemas.KindHTTP, ID: "a"}
	for subject, writers := range map[string][]access.Role{
		layout.Subject(ref, schemas.SectionAccepted):     {access.Ingress},
		layout.Subject(ref, schemas.SectionWake):         {access.Ingress, access.Worker},
		layout.Subject(ref, schemas.SectionOverflow):     {access.Worker},
		layout.Subject(ref, schemas.SectionOverflowLong): {access.Worker},
		layout.Subject(ref, schemas.SectionEvent):        {access.Worker},
		layout.Schedule(ref):                             {access.Worker},
		"weir.evidence.t.http.entry.a":                   {access.Worker},
		"weir.dead.t.http.a":                             {access.Worker},
		schemas.CancelSubject(ref):                       {access.Ingress},
		schemas.StatusSubject(ref):                       {access.Worker},
		schemas.PolicyRequestRoot + ".a":                 {access.Ingress},
		schemas.NodesRequestRoot + ".a":                  {access.Egress},
		schemas.PolicyReportRoot + ".a":                  {access.Ingress, access.Worker, access.Egress},
		"$KV.WEIR_TOKENS.id":                             {access.Ingress},
		"$KV.WEIR_RULES.t":                               {access.Worker},
		"$KV.WEIR_KEYS.evidence":                         {access.Provisioner},
		"$JS.API.STREAM.MSG.GET.KV_WEIR_KEYS":            {access.Worker, access.Provisioner},
		"$JS.API.STREAM.CREATE.WEIR_LOG_0":               {access.Provisioner},
		"$JS.API.STREAM.UPDATE.WEIR_EVIDENCE":            {access.Provisioner},
		"$JS.API.CONSUMER.MSG.NEXT.WEIR_LOG_1.http":      {access.Worker},
		"$JS.API.CONSUMER.LIST.WEIR_LOG_1":               {access.Ingress, access.Worker, access.Egress},
		"$JS.ACK.WEIR_LOG_0.http.1.2.3.4.5":              {access.Worker},
		"$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE.x":      {},
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.x":        {access.Provisioner},
		"$JS.API.CONSUMER.DELETE.WEIR_LOG_0.http":        {},
		"$JS.API.STREAM.DELETE.WEIR_LOG_0":               {},
		"$JS.API.STREAM.PURGE.WEIR_LOG_0":                {},
		"$JS.API.STREAM.PURGE.KV_WEIR_TOKENS":            {access.Ingress},
		"$JS.API.STREAM.PURGE.KV_WEIR_KEYS":              {},
		"$JS.API.STREAM.MSG.DELETE.WEIR_LOG_0":           {},
		"$JS.API.STREAM.CREATE.OTHER":                    {},
		"$JS.API.STREAM.INFO.WEIR_LOG_2":                 {}, // there are two partitions
		"weir.live.log.0.event.t.http.a":                 {},
		"anything":                                       {},
	} {
		only(t, subject, func(p access.Permissions) []access.Rule { return p.Publish }, writers)
	}
}

func TestWhoHearsWhat(t *testing.T) {
	t.Parallel()
	three := []access.Role{access.Ingress, access.Worker, access.Egress}
	for subject, who := range map[string][]access.Role{
		schemas.LiveLog + ".>":            three,
		schemas.LiveLog + ".*.*.*.task.*": three,
		schemas.LiveRoot + ".tokens.>":    three,
		schemas.LiveRoot + ".rules.>":     three,
		schemas.LiveRoot + ".evidence.>":  {access.Egress},
		schemas.CancelRoot + ".>":         {access.Worker},
		schemas.AgentAPIRoot + ".*":       {access.Ingress},
		schemas.LiveRoot + ".>":           {},
		schemas.LogRoot + ".>":            {},
		"_INBOX.>":                        {},
		">":                               {},
		"$JS.API.>":                       {},
	} {
		only(t, subject, func(p access.Permissions) []access.Rule { return p.Subscribe }, who)
	}
	for _, r := range access.Roles() {
		own := access.CoveredBy(access.Ingress.Inbox()+".x.*", access.Subjects(access.Of(r, partitions).Subscribe))
		require.Equal(t, r == access.Ingress, own, "no other role, nor Serve, reads the replies to ingress: %s", r)
	}
}

// TestTenantsHaveTheirOwn: what a tenant's accounts import is within what is offered, and covers
// nothing of another tenant.
func TestTenantsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	streams, services, streamed := access.Exports()
	for _, a := range []access.Account{access.Observer("a.b"), access.Agent("a.b")} {
		for _, s := range a.Streams {
			require.True(t, access.CoveredBy(s, streams), s)
		}
		for _, s := range a.Services {
			require.True(t, access.CoveredBy(s, append(services, streamed...)), s)
		}
		for _, other := range []string{
			"weir.evidence.b.http.e.id", "weir.evidence.a.b.e.id", "weir.live.evidence.b.http.e.id", "weir.status.b.task.id", schemas.AgentAPISubject("b"),
			"$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE." + access.ObserverQueue("b"), "$JS.API.STREAM.INFO.WEIR_EVIDENCE", "$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.x",
		} {
			require.False(t, access.CoveredBy(other, append(a.Streams, a.Services...)), other)
			require.False(t, access.CoveredBy(other, access.Subjects(append(a.Publish, a.Subscribe...))), other)
		}
	}
	require.True(t, access.CoveredBy("weir.evidence.a%2Eb.http.e.id", access.Observer("a.b").Streams))
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{"a.*", "a.>", false},
		{"a.>", "a.>", true},
		{">", "a.>", true},
		{"a.b", "a.*", false},
		{"a.*", "a.*", true},
		{"a.*.>", "a.>", false},
		{"a.*.c", "a.b.c", true},
		{"*.b", "a.b", true},
		{"a.>.c", "a.b.c", false},
	} {
		require.Equal(t, c.want, access.Covers(c.pattern, c.subject), "%s %s", c.pattern, c.subject)
	}
}

func TestFamilyNamesNobody(t *testing.T) {
	t.Parallel()
	ref := schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: "secret"}
	require.Equal(t, "weir.log.*.event.>", access.Family(layout.Subject(ref, schemas.SectionEvent), partitions))
	require.Equal(t, "$KV.WEIR_TOKENS.>", access.Family("$KV.WEIR_TOKENS.id", partitions))
	require.Equal(t, "other", access.Family("acme.secret", partitions))
}
