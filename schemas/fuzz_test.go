package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// FuzzOtherSubjects: whatever a tenant, a kind, an entry and an id are called,
// each is one token of the subject, so that no name reaches another tenant's
// subjects or becomes a wildcard.
func FuzzOtherSubjects(f *testing.F) {
	f.Add("default", "http.attempt", "orders", "a.b:c", "weir.cancel.t.http.id")
	f.Add("", "", "", "", "weir.cancel.%.plan.%")
	f.Add("*", ">", "host:.example.com", "a.*.>", "weir.cancel.*.http.>")
	f.Add("a b", "\x00", "é", "%2E", "weir.cancel.a.http")
	f.Add("a\r\nb", "%", "%%", strings.Repeat("a", 300), "weir.log.0.0.t.http.id.event")
	f.Fuzz(func(t *testing.T, tenant, kind, entry, id, foreign string) {
		record := schemas.Evidence{Tenant: tenant, Kind: kind, Entry: entry, ActionID: id}
		subject := schemas.EvidenceSubject(record)
		tokens := tokensOf(t, subject, schemas.EvidenceRoot, 4)
		for i, text := range []string{tenant, kind, entry, id} {
			back, err := schemas.UnescapeToken(tokens[i])
			require.NoError(t, err)
			require.Equal(t, text, back)
		}
		// A tenant's filter covers the tenant's own and no other's.
		filter := schemas.EvidenceFilter(tenant, "", "", "", false)
		require.True(t, covers(filter, subject))
		record.Tenant = tenant + "x"
		require.False(t, covers(filter, schemas.EvidenceSubject(record)))

		letter := schemas.DeadLetter{Tenant: tenant, Kind: schemas.Kind(kind), ActionID: id}
		tokensOf(t, schemas.DeadSubject(letter), schemas.DeadRoot, 3)

		ref := schemas.Ref{Tenant: tenant, Kind: schemas.KindPlan, ID: id}
		cancel := schemas.CancelSubject(ref)
		tokensOf(t, cancel, schemas.CancelRoot, 3)
		got, ok := schemas.ParseCancel(cancel)
		require.True(t, ok)
		require.Equal(t, ref, got)
		// What is read as a cancel is a cancel's own spelling.
		if ref, ok := schemas.ParseCancel(foreign); ok {
			require.Equal(t, foreign, schemas.CancelSubject(ref))
		}
	})
}

// tokensOf are what stands behind the root of a subject.
func tokensOf(t *testing.T, subject, root string, count int) []string {
	t.Helper()
	require.False(t, strings.ContainsAny(subject, "*> \t\r\n\x00"), subject)
	rest, ok := strings.CutPrefix(subject, root+".")
	require.True(t, ok, subject)
	tokens := strings.Split(rest, ".")
	require.Len(t, tokens, count)
	for _, token := range tokens {
		require.NotEmpty(t, token)
	}
	return tokens
}

// FuzzValidID: an id that may reach a log line is what the contract says.
func FuzzValidID(f *testing.F) {
	for _, s := range []string{"", "a", "A-z_0.9:", "a b", "é", "a\n", strings.Repeat("a", 128), strings.Repeat("a", 129), "a/b", "a%b", "*", "\x7f"} {
		f.Add(s)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	f.Fuzz(func(t *testing.T, s string) {
		want := s != "" && len(s) <= 128 && strings.Trim(s, alphabet) == "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(alphabet, r) })
		require.Equal(t, want, schemas.ValidID(s))
	})
}
