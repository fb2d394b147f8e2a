package rules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/rules"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestOperations: each write is in the set, says what it wrote, gives a fresh etag
// and leaves one record of who replaced what with what.
func TestOperations(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	first := create(delay("a"))
	first.Group, first.CreateGroup = "checkout", true
	for _, step := range []struct {
		order schemas.RuleOrder
		check func(doc schemas.RuleSet, rule *schemas.Rule)
	}{
		{first, func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, []string{"checkout"}, doc.Groups)
			assert.Equal(t, "checkout", rule.Group)
			assert.True(t, rule.Enabled)
		}},
		{schemas.RuleOrder{Operation: schemas.OpRulesCreate, Group: "checkout", Rule: delay("b")}, func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, []string{"checkout"}, doc.Groups)
			assert.Equal(t, "b", rule.ID)
		}},
		{schemas.RuleOrder{Operation: schemas.OpRulesCreate, Group: "an", CreateGroup: true, Rule: delay("c")}, func(doc schemas.RuleSet, _ *schemas.Rule) {
			assert.Equal(t, []string{"an", "checkout"}, doc.Groups)
		}},
		{create(inGroup(delay("e"), "checkout")), func(_ schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, "checkout", rule.Group, "it names the group itself")
		}},
		{schemas.RuleOrder{Operation: schemas.OpRulesCreate, Group: "checkout", Rule: inGroup(delay("f"), "checkout")}, func(_ schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, "checkout", rule.Group)
		}},
		{schemas.RuleOrder{Operation: schemas.OpRulesCreate, CreateGroup: true, Rule: inGroup(delay("g"), "all")}, func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, "all", rule.Group)
			assert.Equal(t, []string{"all", "an", "checkout"}, doc.Groups)
		}},
		{create(delay("d")), func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, schemas.DefaultGroup, rule.Group)
			assert.Equal(t, []string{"all", "an", "checkout"}, doc.Groups)
		}},
		{patch("a", `{"priority":7,"action":{"delay_ms":9}}`), func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.Equal(t, "a", doc.Rules[0].ID, "it stays where it stood")
			assert.Equal(t, 7, rule.Priority)
			assert.EqualValues(t, 9, *rule.Action.DelayMS)
		}},
		{on(schemas.OpRulesDisable, "a"), func(_ schemas.RuleSet, rule *schemas.Rule) { assert.False(t, rule.Enabled) }},
		{on(schemas.OpRulesDisable, "a"), func(_ schemas.RuleSet, rule *schemas.Rule) { assert.False(t, rule.Enabled) }},
		{on(schemas.OpRulesEnable, "a"), func(_ schemas.RuleSet, rule *schemas.Rule) { assert.True(t, rule.Enabled) }},
		{on(schemas.OpGlobalOff, ""), func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.False(t, doc.GlobalActive)
			assert.Nil(t, rule)
		}},
		{on(schemas.OpGlobalOn, ""), func(doc schemas.RuleSet, rule *schemas.Rule) {
			assert.True(t, doc.GlobalActive)
			assert.Nil(t, rule)
		}},
	} {
		was := r.newest()
		kept, err := json.Marshal(was.Doc)
		require.NoError(t, err)
		e := r.do(step.order)
		now := r.newest()
		assert.NotEqual(t, was.Etag, now.Etag)
		assert.Equal(t, now.Etag, e.result.RulesEtag)
		assert.Equal(t, step.order.Operation, e.result.Operation)
		assert.Equal(t, fmt.Sprintf("req rul-%d", r.n), e.result.RequestID)
		step.check(now.Doc, e.result.Rule)

		assert.Equal(t, fmt.Sprintf("rul-%d", r.n), now.Doc.By)
		assert.Equal(t, was.Revision, now.Doc.Previous)
		unchanged, err := json.Marshal(was.Doc)
		require.NoError(t, err)
		assert.Equal(t, string(kept), string(unchanged), "a snapshot is never changed")

		ev, audit := r.audit()
		id := step.order.ID
		if e.result.Rule != nil {
			id = e.result.Rule.ID
		}
		assert.Equal(t, schemas.RuleAudit{
			Timestamp: r.now.Format(time.RFC3339Nano), Caller: "tok-1", RequestID: e.result.RequestID, Operation: step.order.Operation,
			RuleID: id, Result: "ok", RulesEtagBefore: was.Etag, RulesEtagAfter: now.Etag,
		}, audit)
		assert.Equal(t, []string{schemas.EvidenceRuleWrite, fmt.Sprintf("rul-%d.rule", r.n), tenant, "tok-1", ""},
			[]string{ev.Kind, ev.ID, ev.Tenant, ev.Principal, string(ev.Code)})
	}
}

// TestRefusals: each says its word, leaves a record of itself, and changes nothing
// of what is stored. The first that applies is told.
func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	stale := r.etag()
	r.do(create(delay("a")))
	r.do(create(redirect("there", "https://api.test/v1/x", "https://api.test/v1/y")))
	off := redirect("off", "https://api.test/old/*", "https://api.test/v1/old")
	r.do(create(off))
	r.do(on(schemas.OpRulesDisable, "off"))
	grouped := func(o schemas.RuleOrder, group string, missing bool) schemas.RuleOrder {
		o.Group, o.CreateGroup = group, missing
		return o
	}
	etag := func(o schemas.RuleOrder, etag string) schemas.RuleOrder {
		o.IfMatch = etag
		return o
	}
	r.enforce(policy.Entry{Name: "api", URLPrefix: "https://api.test/v1/", Methods: []string{"GET", "POST"}}, policy.Entry{Name: "admin", URLPrefix: "https://api.test/admin", Mode: policy.ModeShadow})
	newest := r.etag()
	guess := strings.Replace(newest, newest[len(newest)-4:], "0000", 1)
	const (
		stays   = schemas.EtagMismatch
		missing = schemas.NotFound
		invalid = schemas.ValidationError
		denied  = string(schemas.DenyRule)
		exists  = schemas.DetailRuleExists
	)
	for name, tt := range map[string]struct {
		order  schemas.RuleOrder
		code   schemas.Code
		detail string
	}{
		"stale":                      {etag(create(delay("n")), stale), stays, ""},
		"stale, and nothing right":   {etag(grouped(create(json.RawMessage(`[]`)), "none", false), stale), stays, ""},
		"guessed hash":               {etag(create(delay("n")), guess), stays, ""},
		"of another tenant":          {etag(create(delay("n")), "etag-2-0123456789abcdef"), stays, ""},
		"any":                        {etag(create(delay("n")), "*"), stays, ""},
		"no rule to patch":           {patch("none", `[]`), missing, ""},
		"no rule to enable":          {on(schemas.OpRulesEnable, "none"), missing, ""},
		"no rule to disable":         {on(schemas.OpRulesDisable, ""), missing, ""},
		"id by case":                 {on(schemas.OpRulesDisable, "A"), missing, ""},
		"no group":                   {grouped(create(json.RawMessage(`[]`)), "none", false), missing, ""},
		"group's name":               {grouped(create(delay("n")), "a b", true), invalid, ""},
		"group's name, none to make": {grouped(create(delay("n")), "a b", false), missing, ""},
		"rule's group":               {create(inGroup(delay("n"), "none")), missing, ""},
		"rule's group's name":        {grouped(create(inGroup(delay("n"), "a b")), "", true), invalid, ""},
		"rule's group is no text":    {create(json.RawMessage(strings.Replace(string(delay("n")), "{", `{"group":1,`, 1))), invalid, ""},
		"two groups":                 {grouped(create(inGroup(delay("n"), "g")), schemas.DefaultGroup, true), invalid, ""},
		"two groups, one unknown":    {grouped(create(inGroup(delay("n"), schemas.DefaultGroup)), "none", false), missing, ""},
		"no object":                  {create(json.RawMessage(`[{}]`)), invalid, ""},
		"no rule":                    {create(json.RawMessage(` {}`)), invalid, ""},
		"id alone":                   {create(json.RawMessage(`{"id":"n"}`)), invalid, ""},
		"hostile rule":               {create(json.RawMessage(`{"id":"AGWCANARY <"}`)), invalid, ""},
		"exists":                     {create(delay("a")), invalid, exists},
		"exists, and not whole":      {create(json.RawMessage(`{"id":"a"}`)), invalid, exists},
		"patch of no object":         {patch("a", `null`), invalid, ""},
		"patch that does not fit":    {patch("a", `{"action":{"delay_ms":-1}}`), invalid, ""},
		"redirect outside":           {create(redirect("n", "https://api.test/*", "https://evil.test/")), invalid, denied},
		"redirect beside, with $":    {create(redirect("n", "https://api.test/*", "https://api.test/admin/$1")), invalid, denied},
		"patched outside":            {patch("there", `{"action":{"to_url":"https://evil.test/"}}`), invalid, denied},
		"patched to its method":      {patch("there", `{"match":{"method":"DELETE"}}`), invalid, denied},
		"to itself":                  {create(redirect("n", "https://api.test/v1/n", "https://api.test/v1/n")), invalid, denied},
		"to itself by wildcards":     {create(redirect("n", "https://api.test/v1/*/*", "https://api.test/v1/$1/$2")), invalid, denied},
	} {
		if tt.order.IfMatch == "" {
			tt.order.IfMatch = newest
		}
		was, err := r.bucket.Get(t.Context(), tenant)
		require.NoError(t, err)
		e := r.try(tt.order)
		require.NoError(t, e.err)
		require.NotNil(t, e.result.Error, name)
		assert.Equal(t, tt.code, e.result.Error.Code, "%s: %s", name, e.result.Error.Message)
		assert.Equal(t, tt.detail, e.result.Error.Detail, "%s: %s", name, e.result.Error.Message)
		assert.Equal(t, []any{schemas.OutcomeFailed, tt.code, e.result.Error.Message}, []any{e.Outcome, e.Code, e.Message}, name)
		assert.NotContains(t, e.Message, "AGWCANARY", name)
		if name == "two groups" {
			assert.Contains(t, e.Message, "at /rule/group: ")
		}
		assert.Nil(t, e.result.Rule, name)
		assert.Equal(t, newest, e.result.RulesEtag, name)
		now, err := r.bucket.Get(t.Context(), tenant)
		require.NoError(t, err)
		assert.Equal(t, was, now, "%s: byte for byte", name)
		ev, audit := r.audit()
		assert.Equal(t, []string{string(tt.code), newest, newest}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter}, name)
		assert.Equal(t, tt.code, ev.Code, name)
		assert.NotContains(t, string(ev.Payload), "AGWCANARY", name)
	}
}

// TestRedirects: what policy may let pass is stored, as far as can be seen; and a
// rule is not in the way of its own end.
func TestRedirects(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]schemas.RuleOrder{
		"inside":             create(redirect("n", "https://old.test/*", "https://api.test/v1/x")),
		"by wildcard":        create(redirect("n", "https://old.test/*", "https://api.test/$1")),
		"host by wildcard":   create(redirect("n", "https://*.old.test/", "https://$1.test/v1/")),
		"an allowed host":    create(redirect("n", "https://old.test/*", "http://allowed.test:81/$1")),
		"a growing one":      create(redirect("n", "https://api.test/v1/*", "https://api.test/v1/v1/$1")),
		"renamed":            patch("revoked", `{"name":"N"}`),
		"turned off":         on(schemas.OpRulesDisable, "revoked"),
		"turned off by word": patch("revoked", `{"enabled":false}`),
		"made a mock":        patch("revoked", `{"type":"mock","action":{"body":1}}`),
	}, func(t *testing.T, order schemas.RuleOrder) {
		r := newEnv(t)
		r.enforce(policy.Entry{Name: "gone", URLPrefix: "https://gone.test/"})
		r.do(create(redirect("revoked", "https://was.test/", "https://gone.test/")))
		r.enforce(policy.Entry{Name: "api", URLPrefix: "https://api.test/v1/"})
		r.do(order)
	})
	r := newEnv(t)
	r.enforce(policy.Entry{Name: "gone", URLPrefix: "https://gone.test/"})
	r.do(create(redirect("r", "https://was.test/", "https://gone.test/")))
	r.do(on(schemas.OpRulesDisable, "r"))
	r.enforce()
	for _, o := range []schemas.RuleOrder{on(schemas.OpRulesEnable, "r"), patch("r", `{"enabled":true}`), patch("r", `{"match":{"url_pattern":"https://other.test/"}}`)} {
		e := r.against(o)
		require.NotNil(t, e.result.Error)
		assert.Equal(t, "DENY_RULE", e.result.Error.Detail)
	}
}

// TestRedirectOfRuns: where agents' entries lead, rules may lead that calls to agents
// may have, and none else; where an agent is, nobody finds out letter by letter.
func TestRedirectOfRuns(t *testing.T) {
	t.Parallel()
	const inside = "http://agent.test:9000/base/v2/"
	for _, tt := range []struct {
		scope, method, to string
		ok                bool
	}{
		{`null`, "ANY", inside, true},
		{`{"action_kind":"run"}`, "POST", inside, true},
		{`{"agent":"A"}`, "ANY", inside + "$1", true},
		{`{"action_kind":"run"}`, "ANY", "http://ag$1", true},
		{`{"action_kind":"run"}`, "ANY", "http://zz$1", true},
		{`{"action_kind":"http"}`, "ANY", inside, false},
		{`{"action_kind":"plan","agent":"A"}`, "POST", inside, false},
		{`{"action_kind":"http"}`, "ANY", "http://ag$1", true}, // the host may become any
		{`{"action_kind":"run"}`, "GET", inside, false},
		{`{"action_kind":"run"}`, "ANY", "http://agent.test:9000/other", false},
		{`{"action_kind":"run"}`, "ANY", "http://evil.test/$1", false},
	} {
		r := newEnv(t)
		r.enforce(policy.Entry{Name: "agent:A", URLPrefix: "http://agent.test:9000/base/", Methods: []string{"POST"}, Agent: true})
		e := r.against(create(json.RawMessage(fmt.Sprintf(
			`{"id":"n","type":"redirect","match":{"url_pattern":"*://*/v1/*","method":%q},"action":{"to_url":%q},"scope":%s}`, tt.method, tt.to, tt.scope))))
		if tt.ok {
			assert.Nil(t, e.result.Error, "%+v", tt)
			continue
		}
		require.NotNil(t, e.result.Error, "%+v", tt)
		assert.Equal(t, string(schemas.DenyRule), e.result.Error.Detail, "%+v", tt)
	}
}

// TestExpired: what expired a day ago is dropped by the next write, unless that is
// about it, and does not count before.
func TestExpired(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.cfg.Limit = 2
	expiring := func(id string, in time.Duration) schemas.RuleOrder {
		return create(json.RawMessage(strings.Replace(string(delay(id)), "{", `{"expires_at":"`+r.now.Add(in).Format(time.RFC3339)+`",`, 1)))
	}
	r.do(expiring("a", time.Hour))
	r.do(expiring("b", time.Hour))
	require.Equal(t, schemas.RuleLimitExceeded, r.against(create(delay("c"))).Code)
	r.now = r.now.Add(25 * time.Hour)
	require.Equal(t, schemas.RuleLimitExceeded, r.against(create(delay("c"))).Code, "not a day ago yet")
	r.now = r.now.Add(time.Second)

	r.do(on(schemas.OpRulesDisable, "b"))
	require.Len(t, r.newest().Doc.Rules, 1)
	r.do(patch("b", `{"expires_at":null}`))
	r.do(expiring("a", time.Hour)) // the id is free
	require.Len(t, r.newest().Doc.Rules, 2)
	r.now = r.now.Add(26 * time.Hour)
	r.do(create(delay("a")))
	require.Len(t, r.newest().Doc.Rules, 2)
	r.do(on(schemas.OpGlobalOff, ""))
	require.Len(t, r.newest().Doc.Rules, 2)
}

// TestLimits: a tenant has so many rules, groups and bytes; what is over a limit that
// was lowered can be changed and turned off.
func TestLimits(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.cfg.Limit = 3
	for i := range 3 {
		o := create(delay(fmt.Sprint("r", i)))
		o.Group, o.CreateGroup = fmt.Sprint("g", i), true
		r.do(o)
	}
	e := r.against(create(delay("n")))
	assert.Equal(t, schemas.RuleLimitExceeded, e.Code)
	assert.Contains(t, e.Message, "3 rules")
	assert.Equal(t, schemas.ValidationError, r.against(create(json.RawMessage(`{"id":"n"}`))).Code, "that comes first")
	r.cfg.Limit = 2
	r.do(patch("r0", `{"priority":1}`))
	r.do(on(schemas.OpRulesDisable, "r0"))
	r.cfg.Limit = 4
	o := create(delay("n"))
	o.Group, o.CreateGroup = "g3", true
	r.do(o)
	r.do(patch("n", `{"expires_at":"`+r.now.Add(time.Minute).Format(time.RFC3339)+`"}`))
	r.now = r.now.Add(48 * time.Hour)
	o.Group = "g4"
	e = r.against(o)
	assert.Equal(t, schemas.RuleLimitExceeded, e.Code, "its group is still there")
	assert.Contains(t, e.Message, "4 groups")
	o.Group = "g3"
	r.do(o)
}

// TestBytes: rules are not added beyond what is stored, and whatever there is can be
// turned off.
func TestBytes(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	try := func(o schemas.RuleOrder) ended {
		o.IfMatch = r.etag()
		// As the pipeline hands it over: a payload of this size lies beside the log.
		st := r.claim(schemas.RuleOrder{Operation: o.Operation})
		var err error
		st.Action.Payload, err = ledger.Encode(o)
		require.NoError(t, err)
		r.start(st)
		return r.verdict(st)
	}
	size := func() int { return len(r.bucket.Newest(tenant).Data) }
	grow := func(change func(doc *schemas.RuleSet)) {
		was := r.newest()
		doc := was.Doc
		doc.Rules = slices.Clone(doc.Rules)
		change(&doc)
		_, err := r.keeper.Put(t.Context(), tenant, doc, was.Revision)
		require.NoError(t, err)
	}
	mock := func(id string, n int) json.RawMessage {
		return json.RawMessage(`{"id":"` + id + `","type":"mock","match":{"url_pattern":"https://api.test/*"},"action":{"body_mode":"text","body":"` + strings.Repeat("x", n) + `"}}`)
	}
	const large = 220 << 10
	require.Equal(t, schemas.OutcomeSucceeded, try(create(mock("m0", large))).Outcome)
	grow(func(doc *schemas.RuleSet) {
		for i := range schemas.MaxRuleSet/large - 1 {
			more := doc.Rules[0]
			more.ID = fmt.Sprint("m", i+1)
			doc.Rules = append(doc.Rules, more)
		}
	})
	require.Equal(t, schemas.RuleLimitExceeded, try(create(mock("n", large))).Code)
	require.Equal(t, schemas.OutcomeSucceeded, try(create(mock("n", 1<<10))).Outcome)
	// Up to the very brink, where no rule would be taken any more.
	body := json.RawMessage(`"` + strings.Repeat("x", 1<<10+schemas.MaxRuleSet-size()-100) + `"`)
	grow(func(doc *schemas.RuleSet) { doc.Rules[len(doc.Rules)-1].Action.Body = body })
	require.Equal(t, schemas.RuleLimitExceeded, try(patch("m0", `{"priority":1}`)).Code)
	for _, o := range []schemas.RuleOrder{on(schemas.OpRulesDisable, "m0"), on(schemas.OpRulesDisable, "n"), on(schemas.OpGlobalOff, "")} {
		require.Equal(t, schemas.OutcomeSucceeded, try(o).Outcome)
		require.Greater(t, size(), schemas.MaxRuleSet-200)
	}
	for told, code := range map[error]schemas.Code{fault.ErrTooLarge: schemas.RuleLimitExceeded, rules.ErrUnreadable: schemas.InternalError} {
		r.sets = closed{r.keeper, told}
		require.Equal(t, code, try(on(schemas.OpGlobalOn, "")).Code)
	}
}

// TestPoison: what is no order is parked.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	for _, payload := range []string{``, `[]`, `{}`, `{"operation":"rules.list"}`, `{"operation":1}`} {
		st := r.claim(on(schemas.OpGlobalOff, ""))
		st.Action.Payload = json.RawMessage(payload)
		e := r.perform(st)
		parked := harness.As[*fault.Terminal](t, e.err)
		assert.Equal(t, schemas.Poison, parked.Code)
	}
	assert.Zero(t, r.newest().Revision)
}
