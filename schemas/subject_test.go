package schemas_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestEscapeToken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "%", "%": "%25", "abc-_09": "abc-_09", "a.b": "a%2Eb", "*": "%2A", ">": "%3E", "a b": "a%20b",
		"é": "%C3%A9", "a:b": "a%3Ab", "\x00\xff": "%00%FF",
	} {
		require.Equal(t, want, schemas.EscapeToken(text))
		back, err := schemas.UnescapeToken(want)
		require.NoError(t, err)
		require.Equal(t, text, back)
	}
}

// TestQueues: each section that is work lies in one queue, whoever's it is.
func TestQueues(t *testing.T) {
	t.Parallel()
	l := schemas.Layout{Partitions: 4}
	want := map[schemas.Section]schemas.Queue{
		schemas.SectionAccepted: schemas.QueueNew, schemas.SectionOverflow: schemas.QueueOverflow, schemas.SectionOverflowLong: schemas.QueueOverflowLong,
		schemas.SectionWake: schemas.QueueWake, schemas.SectionEvent: "",
	}
	for section, queue := range want {
		ref := schemas.Ref{Tenant: "acme.inc", Kind: schemas.KindTask, ID: "a:1"}
		var in schemas.Queue
		for _, q := range schemas.Queues() {
			p := l.Partition(ref.Tenant, ref.ID)
			if covers(q.Filter(p), l.Subject(ref, section)) {
				require.Empty(t, in)
				in = q
			}
			require.Equal(t, q == queue, covers(q.FilterOf(p, ref.Tenant), l.Subject(ref, section)))
			require.False(t, covers(q.FilterOf(p, "other"), l.Subject(ref, section)))
		}
		require.Equal(t, queue, in, section)
	}
}

func TestAgentAPISubjects(t *testing.T) {
	t.Parallel()
	for _, tenant := range []string{"default", "acme.inc:1", ""} {
		got, ok := schemas.ParseAgentAPI(schemas.AgentAPISubject(tenant))
		require.True(t, ok, tenant)
		require.Equal(t, tenant, got)
	}
	for _, subject := range []string{"", "weir.rpc.agent-api", "weir.rpc.agent-api.", "weir.rpc.agent-api.%2e", "weir.rpc.agent-api.a.b", "weir.rpc.other.a"} {
		_, ok := schemas.ParseAgentAPI(subject)
		require.False(t, ok, subject)
	}
}

func FuzzEscapeToken(f *testing.F) {
	for _, s := range []string{"", "%", "a.b", "*.>", "é\x00\xff", "%2E", " "} {
		f.Add(s, s)
	}
	// A token has one spelling: another must not name the same thing.
	for _, s := range []string{"%4", "%zz", "%2e", "%41", "%61", "%2D", "a b", "*", ">", "é", "%%", "a%", "%2", "%5F"} {
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		token := schemas.EscapeToken(s)
		require.NotEmpty(t, token)
		require.False(t, strings.ContainsAny(token, ".*> \t\r\n"), token)
		require.True(t, utf8.ValidString(token))
		back, err := schemas.UnescapeToken(token)
		require.NoError(t, err)
		require.Equal(t, s, back)
		if s != other {
			require.NotEqual(t, token, schemas.EscapeToken(other))
		}
		// Whatever is taken for a token was written by EscapeToken.
		text, err := schemas.UnescapeToken(other)
		if err != nil {
			require.ErrorIs(t, err, schemas.ErrSubject)
			return
		}
		require.Equal(t, other, schemas.EscapeToken(text))
	})
}

func FuzzSubject(f *testing.F) {
	f.Add("default", "a.b:c", "weir.log.0.event.t.http.id")
	f.Add("", "", "weir.log.0.event.%.plan.%")
	f.Add("*", ">", "weir.log.0")
	f.Fuzz(func(t *testing.T, tenant, id, foreign string) {
		layout := schemas.Layout{Partitions: 8}
		ref := schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: id}
		for _, section := range []schemas.Section{schemas.SectionAccepted, schemas.SectionWake, schemas.SectionEvent} {
			subject := layout.Subject(ref, section)
			require.Equal(t, 6, strings.Count(subject, "."))
			got, gotSection, err := schemas.ParseSubject(subject)
			require.NoError(t, err)
			require.Equal(t, ref, got)
			require.Equal(t, section, gotSection)
			partition, action, cut := schemas.Split(subject)
			require.Equal(t, section, cut)
			require.Equal(t, subject, schemas.LogRoot+"."+partition+"."+string(cut)+"."+action)
			require.Equal(t, layout.Subject(ref, schemas.SectionOverflow), schemas.Moved(subject, schemas.SectionOverflow))
			require.True(t, covers(layout.All(ref), subject))
			require.True(t, covers(layout.AnyKind(tenant, id), subject))
			require.False(t, covers(layout.All(ref), layout.Schedule(ref)), "a schedule is no event")
		}
		accepted := layout.Subject(ref, schemas.SectionAccepted)
		require.True(t, covers(schemas.QueueNew.Filter(layout.Partition(tenant, id)), accepted))
		if ref, _, err := schemas.ParseSubject(foreign); err == nil {
			require.Equal(t, ref.Tenant == tenant && ref.ID == id, covers(layout.AnyKind(tenant, id), layout.Subject(ref, schemas.SectionEvent)))
		}
	})
}

// covers is how a NATS filter matches a subject.
func covers(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		if token == ">" {
			return i < len(s)
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(f) == len(s)
}

func TestEvidenceSubjects(t *testing.T) {
	t.Parallel()
	e := schemas.Evidence{Tenant: "t.1", Kind: schemas.EvidenceConnector, Entry: "a.b", ActionID: "id:1"}
	subject := schemas.EvidenceSubject(e)
	require.Equal(t, "weir.evidence.t%2E1.builtin%2Ehttp_connector.a%2Eb.id%3A1", subject)
	require.True(t, covers(schemas.EvidenceFilter("t.1", "", "", "", false), subject))
	require.True(t, covers(schemas.EvidenceFilter("t.1", schemas.EvidenceConnector, "", "id:1", false), subject))
	require.False(t, covers(schemas.EvidenceFilter("t.1", schemas.EvidenceDecision, "", "", false), subject))
	require.False(t, covers(schemas.EvidenceFilter("t", "", "", "", false), subject))
	e.Entry = ""
	require.False(t, covers(schemas.EvidenceFilter("t.1", "", "a.b", "", false), schemas.EvidenceSubject(e)))
	require.True(t, covers(schemas.EvidenceFilter("t.1", "", "", "", false), schemas.EvidenceSubject(e)))
	require.Equal(t, "weir.dead.%.http.a%2Eb", schemas.DeadSubject(schemas.DeadLetter{Kind: schemas.KindHTTP, ActionID: "a.b"}))
}

func TestParseSubjectRefuses(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{
		"", "weir", "weir.log.0.event.t.http", "weir.log.0.event.t.http.id.more", "weir.evidence.0.event.t.http.id",
		"other.log.0.event.t.http.id", "weir.log.0.event..http.id", "weir.log.0.event.t.http.%zz",
	} {
		_, _, err := schemas.ParseSubject(subject)
		require.ErrorIs(t, err, schemas.ErrSubject, subject)
	}
}

func TestPartitionsAreStable(t *testing.T) {
	t.Parallel()
	// FNV-1a, finished as MurmurHash3 does it. Subjects on disk depend on these numbers: they must never change.
	l := schemas.Layout{Partitions: 8}
	require.Equal(t, 7, l.Partition("default", "a"))
	one := schemas.Layout{Partitions: 1}
	require.Equal(t, "weir.log.0.accepted.default.http.a", one.Subject(schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"}, schemas.SectionAccepted))
	used := map[int]int{}
	for i := range 1000 {
		p := l.Partition("t", strconv.Itoa(i))
		require.True(t, p >= 0 && p < 8)
		used[p]++
	}
	require.Len(t, used, 8)
	clear(used)
	for c := 'a'; c <= 'z'; c++ { // ids of one letter, which FNV alone puts into two
		used[l.Partition("t", strings.Repeat(string(c), 8))]++
	}
	require.Greater(t, len(used), 5)
}

// TestCostOfASubject: one is made several times an action.
func TestCostOfASubject(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	l, r := schemas.Layout{Partitions: 64}, schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "an id that is not short, at all"}
	require.Zero(t, testing.AllocsPerRun(100, func() { l.Partition(r.Tenant, r.ID) }))
	r.ID = "0192d0c4-5a7e-7c3b-8f61-2b8f5a9d1e77"
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { l.Subject(r, schemas.SectionEvent) }), 2.0)
}

// FuzzOtherSubjects: whatever a tenant, a kind, an entry and an id are called,
// each is one token of the subject, so that no name reaches another tenant's
// subjects or becomes a wildcard.
func FuzzOtherSubjects(f *testing.F) {
	f.Add("default", "http.attempt", "orders", "a.b:c", "weir.cancel.t.http.id")
	f.Add("", "", "", "", "weir.cancel.%.plan.%")
	f.Add("*", ">", "host:.example.com", "a.*.>", "weir.cancel.*.http.>")
	f.Add("a b", "\x00", "é", "%2E", "weir.cancel.a.http")
	f.Add("a\r\nb", "%", "%%", strings.Repeat("a", 300), "weir.log.0.event.t.http.id")
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

// TestEnds: an end is known by its place and its first members, whatever else it holds.
func TestEnds(t *testing.T) {
	t.Parallel()
	layout, ref := schemas.Layout{Partitions: 4}, schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
	in := func(s schemas.Section, data string) schemas.Record {
		return schemas.Record{Subject: layout.Subject(ref, s), Data: []byte(data)}
	}
	event := func(typ schemas.EventType, n int) string {
		data, err := json.Marshal(schemas.Event{V: schemas.EventVersion, N: n, Type: typ, Time: time.Now(), Data: []byte(`{"type":"settled","a":1}`)})
		require.NoError(t, err)
		return string(data)
	}
	for _, n := range []int{1, 3, 123_456_789_012_345} {
		end := event(schemas.EventSettled, n)
		require.True(t, in(schemas.SectionEvent, end).Ends(), end)
		require.True(t, schemas.Append{Subject: layout.Subject(ref, schemas.SectionEvent), Data: []byte(end)}.Ends())
		require.False(t, in(schemas.SectionWake, end).Ends(), "it is no place for one")
		require.False(t, in(schemas.SectionAccepted, end).Ends())
	}
	require.True(t, in(schemas.SectionEvent, `{"v":9,"n":3,"type":"settled","ti`).Ends(), "half of one")
	for _, typ := range []schemas.EventType{
		schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted, schemas.EventWaiting, schemas.EventProgress, schemas.EventDelta, schemas.EventStatus,
	} {
		require.Equal(t, schemas.SectionEvent, schemas.SectionOf(typ))
		require.False(t, in(schemas.SectionEvent, event(typ, 2)).Ends(), typ)
	}
	require.False(t, in(schemas.SectionEvent, "").Ends())
	require.False(t, schemas.Record{Subject: "weir.evidence.t.http.e.a", Data: []byte(event(schemas.EventSettled, 1))}.Ends())
}

// TestNotifies: what has no content only notifies, where notifications lie.
func TestNotifies(t *testing.T) {
	t.Parallel()
	layout, ref := schemas.Layout{Partitions: 4}, schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
	for section, notifies := range map[schemas.Section]bool{
		schemas.SectionWake: true, schemas.SectionOverflow: true, schemas.SectionOverflowLong: true, schemas.SectionAccepted: false, schemas.SectionEvent: false,
	} {
		r := schemas.Record{Subject: layout.Subject(ref, section)}
		require.Equal(t, notifies, r.Notifies(), section)
		r.Data = []byte("{}")
		require.False(t, r.Notifies(), section)
	}
}
