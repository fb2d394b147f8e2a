package rules

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

// TestEtagCoversTheSet and the switch, and nothing that is said about the write.
func TestEtagCoversTheSet(t *testing.T) {
	t.Parallel()
	tag := func(tenant string, change func(*schemas.RuleSet)) string {
		d := doc(rule("a"), rule("b"))
		d.V, d.Tenant, d.Groups = schemas.RuleSetVersion, tenant, []string{"g"}
		change(&d)
		value, err := encode(d)
		require.NoError(t, err)
		s, err := open(tenant, schemas.Record{Seq: 7, Data: value})
		require.NoError(t, err)
		require.Equal(t, s.Etag, s.Set.Etag())
		return s.Etag
	}
	same := tag("t", func(*schemas.RuleSet) {})
	require.Regexp(t, `^etag-7-[0-9a-f]{16}$`, same)
	for name, change := range map[string]func(*schemas.RuleSet){
		"by": func(d *schemas.RuleSet) { d.By = "x" }, "previous": func(d *schemas.RuleSet) { d.Previous = 9 },
		"at": func(d *schemas.RuleSet) { d.At = d.At.Add(1) },
	} {
		require.Equal(t, same, tag("t", change), name)
	}
	seen := map[string]string{same: "same"}
	for name, change := range map[string]func(*schemas.RuleSet){
		"switch": func(d *schemas.RuleSet) { d.GlobalActive = false }, "groups": func(d *schemas.RuleSet) { d.Groups = nil },
		"rule": func(d *schemas.RuleSet) { d.Rules[1].Priority++ }, "fewer": func(d *schemas.RuleSet) { d.Rules = d.Rules[:1] },
		"order": func(d *schemas.RuleSet) { d.Rules[0], d.Rules[1] = d.Rules[1], d.Rules[0] },
	} {
		got := tag("t", change)
		require.NotContains(t, seen, got, name)
		seen[got] = name
	}
	require.NotContains(t, seen, tag("other", func(*schemas.RuleSet) {}))
}

// whole is the set of a tenant t without rules.
const whole = `{"v":1,"tenant":"t","global_active":true,"groups":[],"rules":[],"by":"a","previous":0,"at":"1970-01-01T00:00:01Z"}`

func TestRevision(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"etag-0-0123456789abcdef": 0, "etag-18446744073709551615-ffffffffffffffff": 1<<64 - 1, "etag-42-0000000000000000": 42,
	} {
		got, ok := Revision(text)
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{
		"", "*", "etag-", "etag-1", "etag-1-", "etag-01-0123456789abcdef", "etag-+1-0123456789abcdef", "etag--1-0123456789abcdef",
		"etag-1-0123456789ABCDEF", "etag-1-0123456789abcde", "etag-1-0123456789abcdef0", `"etag-1-0123456789abcdef"`, "W/etag-1-0123456789abcdef",
		"etag-1-0123456789abcdef, etag-2-0123456789abcdef", " etag-1-0123456789abcdef", "ETAG-1-0123456789abcdef",
		"etag-18446744073709551616-0123456789abcdef", "etag-1-0123456789abcdeg",
	} {
		_, ok := Revision(text)
		require.False(t, ok, text)
	}
}

// TestUnreadable sets are told apart from none, and from each other for the log.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	bad, err := json.Marshal(schemas.Rule{ID: "a", Type: "no such type"})
	require.NoError(t, err)
	for value, want := range map[string]error{
		`x`:                      errDamaged,
		`null`:                   errVersion,
		`{}`:                     errVersion,
		`{"v":2,"tenant":"t"}`:   errVersion,
		`{"v":"1","tenant":"t"}`: errDamaged,
		`{"v":1,"tenant":"u"}`:   errTenant,
		`{"v":1,"tenant":"T"}`:   errTenant,
		`{"v":1}`:                errTenant,
		`{"v":1,"tenant":"t"}{}`: errDamaged,
		`{"v":1,"rules":"","x":`: errDamaged,
		`{"v":2,"later":true}`:   errVersion,
		ruled(string(bad)):       errRule,
		ruled(`null`):            errDamaged,
		ruled(`{"x":1}`):         errDamaged,
		whole + whole:            errDamaged,
		strings.Replace(whole, `"rules":[]`, `"rules":"rules"`, 1):        errDamaged,
		strings.Replace(whole, `"groups":[]`, `"groups":[1]`, 1):          errDamaged,
		strings.Replace(whole, `{"v":1`, `{"v":1,"later":true`, 1):        errDamaged,
		strings.Replace(whole, `{"v":1`, `{"v":2,"later":true`, 1):        errVersion,
		strings.Replace(whole, `"tenant":"t"`, `"tenant":null`, 1):        errTenant,
		strings.Replace(whole, `"rules":[]`, `"rules":[`+"]}]", 1):        errDamaged,
		strings.Replace(whole, `"groups":[]`, `"groups":["g"],"x":[]`, 1): errDamaged,
	} {
		_, err := open("t", schemas.Record{Seq: 1, Data: []byte(value)})
		require.Equal(t, want, err, value)
		require.ErrorIs(t, err, ErrUnreadable)
	}
}

// ruled is a set of a tenant t with one rule.
func ruled(rule string) string {
	return strings.Replace(whole, `"rules":[]`, `"rules":[`+rule+`]`, 1)
}

// TestEachMemberHasToBeThere, and none may be that this program does not know: what
// lost its rules, or a limit to one of them, is no set without.
func TestEachMemberHasToBeThere(t *testing.T) {
	t.Parallel()
	read := func(value string) error {
		_, err := open("t", schemas.Record{Seq: 1, Data: []byte(value)})
		return err
	}
	require.NoError(t, read(whole))
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(whole), &members))
	require.Len(t, members, reflect.TypeFor[schemas.RuleSet]().NumField())
	for name, value := range members {
		for what, without := range map[string]func(){
			"missing": func() { delete(members, name) },
			"null":    func() { members[name] = json.RawMessage("null") },
		} {
			without()
			changed, err := json.Marshal(members)
			require.NoError(t, err)
			require.ErrorIs(t, read(string(changed)), ErrUnreadable, "%s %s", name, what)
			members[name] = value
		}
	}
	raw, err := json.Marshal(rule("a"))
	require.NoError(t, err)
	good := string(raw)
	require.NoError(t, read(ruled(good)))
	for _, change := range [][2]string{
		{`"enabled":true,`, ``},
		{`"enabled":true`, `"enabled":null`},
		{`"group":"default",`, ``},
		{`"type":"mock",`, ``},
		{`"enabled":true`, `"enabled":true,"later":1`},
		{`"match":{`, `"match":{"later":1,`},
		{`"action":{`, `"action":{"later":1,`},
		{`"enabled":true`, `"enabled":true,"scope":{"later":"x"}`},
	} {
		require.Contains(t, good, change[0])
		require.ErrorIs(t, read(ruled(strings.Replace(good, change[0], change[1], 1))), ErrUnreadable, change[1])
	}
}

func TestPutRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	r := rule("a")
	r.Action.Body = json.RawMessage(`"` + strings.Repeat("x", schemas.MaxRuleSet) + `"`)
	_, err := k.Put(t.Context(), "t", doc(r), 0)
	require.ErrorIs(t, err, fault.ErrTooLarge)
	r.Type = "no such type"
	r.Action = schemas.RuleAction{}
	_, err = k.Put(t.Context(), "t", doc(r), 0)
	require.ErrorIs(t, err, ErrUnreadable, "what nobody can read is not written")
	require.Empty(t, s.Records)
	require.Empty(t, k.force(t, "t"))
}
