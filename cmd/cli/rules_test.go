package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/client"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// scripted is a server of the agent API with fixed answers, in order.
type scripted struct {
	*httptest.Server
	mu      sync.Mutex
	answers []string // operation, space, data or error; "cut": the connection breaks
	asked   []schemas.AgentRequest
}

func script(t *testing.T, answers ...string) *scripted {
	t.Helper()
	s := &scripted{answers: answers}
	s.Server = newServer(t, s.ServeHTTP)
	t.Cleanup(func() {
		s.Close()
		assert.Empty(t, s.answers, "was not asked for")
	})
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var env schemas.AgentEnvelope
	if err := json.NewDecoder(r.Body).Decode(&env); err != nil || len(s.answers) == 0 {
		http.Error(w, "unexpected", http.StatusTeapot)
		return
	}
	s.asked = append(s.asked, env.Request)
	answer := s.answers[0]
	s.answers = s.answers[1:]
	if answer == "cut" {
		panic(http.ErrAbortHandler)
	}
	operation, rest, _ := strings.Cut(answer, " ")
	doc := schemas.AgentResponse{OK: true, RequestID: env.Request.RequestID, Operation: env.Request.Operation}
	status := http.StatusOK
	if operation != env.Request.Operation {
		http.Error(w, "asked for "+env.Request.Operation+", not "+operation, http.StatusTeapot)
		return
	}
	if code, detail, refused := strings.Cut(rest, "|"); refused {
		status, doc.OK = http.StatusConflict, false
		doc.Error = &schemas.AgentError{Code: schemas.Code(code), Message: "no\x1b[2J", Detail: detail}
	} else {
		doc.Data = json.RawMessage(rest)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, _ := client.Encode(doc)
	_, _ = w.Write(text)
}

// args are the arguments of the n-th request.
func (s *scripted) args(t *testing.T, n int) map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Greater(t, len(s.asked), n)
	var args map[string]any
	require.NoError(t, json.Unmarshal(s.asked[n].Args, &args))
	return args
}

func (s *scripted) run(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, in, nil, append([]string{"rules"}, append(args, "--server", s.URL)...)...)
}

const (
	status1 = `status {"global_active":true,"rule_count":1,"rules_etag":"etag-1-a"}`
	status2 = `status {"global_active":true,"rule_count":1,"rules_etag":"etag-2-b"}`
	rule1   = `{"id":"slow","group":"g","type":"delay","enabled":true,"match":{"url_pattern":"https://a.example/*"},"action":{"delay_ms":5}}`
)

// TestRulesWrites: a write is made on the newest set, and once more if another client was first; on and off mean the
// same on every set, so that they are tried until they are in.
func TestRulesWrites(t *testing.T) {
	t.Parallel()
	const mismatch = "rules.disable ETAG_MISMATCH|"
	var busy []string
	for range 9 {
		busy = append(busy, status1, "global.off ETAG_MISMATCH|")
	}
	type testCase struct {
		answers   []string
		args      []string
		out, errs string
		check     func(t *testing.T, s *scripted, errs string)
	}
	table.Run(t, map[string]testCase{
		"on the newest": {
			[]string{status1, `rules.create {"rule":` + rule1 + `,"rules_etag":"etag-2-b"}`},
			[]string{"create", `{"id":"slow","priority":1e2}`, "--group", "g", "--create-group"},
			"rule slow is made in group g; etag-2-b\n", "", func(t *testing.T, s *scripted, _ string) {
				t.Helper()
				assert.Equal(t, map[string]any{
					"if_match": "etag-1-a", "group": "g", "create_group_if_missing": true, "rule": map[string]any{"id": "slow", "priority": 100.0},
				}, s.args(t, 1))
				assert.Contains(t, string(s.asked[1].Args), `1e2`, "numbers go as they were written")
			},
		},
		"once more": {
			[]string{status1, mismatch, status2, `rules.disable {"rules_etag":"etag-3-c"}`},
			[]string{"disable", "slow", "--json"},
			`{"rules_etag":"etag-3-c"}` + "\n", "", func(t *testing.T, s *scripted, _ string) {
				t.Helper()
				assert.Equal(t, "etag-2-b", s.args(t, 3)["if_match"])
				assert.NotEqual(t, s.asked[1].RequestID, s.asked[3].RequestID, "another request")
			},
		},
		"and no more": {
			[]string{status1, mismatch, status2, mismatch},
			[]string{"disable", "slow"},
			"", "weir: no\\u001b[2J (ETAG_MISMATCH)\nanother client changed the rules", nil,
		},
		"the set was named": {
			[]string{mismatch}, []string{"disable", "slow", "--if-match", "etag-0-x", "--json"}, "", "ETAG_MISMATCH", func(t *testing.T, s *scripted, errs string) {
				t.Helper()
				var answer schemas.AgentResponse
				require.NoError(t, json.Unmarshal([]byte(errs), &answer), "the answer itself")
				assert.Equal(t, schemas.EtagMismatch, answer.Error.Code)
				assert.Equal(t, "etag-0-x", s.args(t, 0)["if_match"])
			},
		},
		"off until it is in":          {slices.Concat(busy, []string{status2, `global.off {"rules_etag":"etag-9-x"}`}), []string{"off"}, "all rules are off; etag-9-x\n", "", nil},
		"off, and never":              {slices.Concat(busy, []string{status1, "global.off ETAG_MISMATCH|"}), []string{"off"}, "", "ETAG_MISMATCH", nil},
		"on, where it was named":      {[]string{"global.on ETAG_MISMATCH|"}, []string{"on", "--if-match", "etag-1-a"}, "", "ETAG_MISMATCH", nil},
		"a patch":                     {[]string{status1, `rules.patch {"rules_etag":"e"}`}, []string{"patch", "slow", `{"priority":1}`}, "rule slow is changed; e\n", "", nil},
		"the status":                  {[]string{`status {"global_active":false,"rule_count":1,"rules_etag":"e"}`}, []string{"status"}, "rules are off; 1 of them; e\n", "", nil},
		"a refusal is not sent again": {[]string{"global.off VALIDATION_ERROR|"}, []string{"off", "--if-match", "e"}, "", "VALIDATION_ERROR", nil},
		"cut off":                     {[]string{"cut"}, []string{"off", "--if-match", "e"}, "", "whether it was done is not known", nil},
	}, func(t *testing.T, tt testCase) {
		s := script(t, tt.answers...)
		code, out, errs := s.run(t, "", tt.args...)
		assert.Equal(t, tt.out == "", code == ExitFailed, errs)
		assert.Equal(t, tt.out, out)
		assert.Equal(t, tt.errs == "", errs == "", errs)
		assert.Contains(t, errs, tt.errs)
		if tt.check != nil {
			tt.check(t, s, errs)
		}
	})
}

func TestRulesHints(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"rules.create VALIDATION_ERROR|RULE_EXISTS":    "weir rules patch ID PATCH",
		"rules.create VALIDATION_ERROR|DENY_RULE":      "weir rules preview METHOD URL --rule FILE",
		"rules.create NOT_FOUND|":                      "--create-group",
		"rules.create RULE_LIMIT_EXCEEDED|":            "expired for a day",
		"rules.create UNAUTHORIZED|AUTH_REQUIRED":      "set $WEIR_TOKEN",
		"rules.create UNAUTHORIZED|SCOPE_REQUIRED":     "--scope rules:write",
		"rules.create UNAUTHORIZED|AGENT_API_DISABLED": "rules.agent_api: false",
	} {
		s := script(t, answer)
		code, out, errs := s.run(t, "", "create", "{}", "--if-match", "e")
		assert.Equal(t, ExitFailed, code, answer)
		assert.Empty(t, out)
		_, words, _ := strings.Cut(answer, " ")
		assert.Contains(t, errs, "("+strings.TrimSuffix(strings.Replace(words, "|", ", ", 1), ", ")+")\n")
		assert.Contains(t, errs, want, answer)
	}
	s := script(t, "rules.get NOT_FOUND|")
	_, _, errs := s.run(t, "", "get", "x")
	assert.Contains(t, errs, "weir rules ls")
}

// TestRulesInput: a document as such, in a file, and on standard input.
func TestRulesInput(t *testing.T) {
	t.Parallel()
	file := fixture.Write(t, "rule.json", `{"id":"f","group":"own"}`)
	for _, arg := range []string{` {"id":"f","group":"own"}`, file, "@" + file, "-", "@-"} {
		s := script(t, status1, `rules.create {"rule":`+rule1+`,"rules_etag":"e"}`)
		code, _, errs := s.run(t, `{"id":"f","group":"own"}`, "create", arg)
		assert.Equal(t, ExitOK, code, errs)
		assert.Equal(t, map[string]any{"id": "f", "group": "own"}, s.args(t, 1)["rule"])
		assert.Equal(t, "own", s.args(t, 1)["group"], "the group that it names itself")
	}
	s := script(t, status1, `rules.create {"rule":`+rule1+`,"rules_etag":"e2"}`, `rules.create {"rule":`+rule1+`,"rules_etag":"e3"}`)
	code, _, errs := s.run(t, "", "create", `[{"id":"a"},{"id":"b"}]`)
	assert.Equal(t, ExitOK, code, errs)
	assert.Equal(t, "e2", s.args(t, 2)["if_match"], "each on top of the one before")

	nobody := script(t)
	for _, line := range []string{
		"create", "create {", "create []", "create " + file + ".not", "create {} {}", "patch x", "patch x {", "get", "enable", "on x", "list x", "frob",
		"preview GET", "preview GET http://a -H x", "preview GET http://a --rule {", "record", "record x --expires-in -1s",
	} {
		code, out, errs := nobody.run(t, "", strings.Fields(line)...)
		assert.Equal(t, ExitUsage, code, "%s: %s", line, errs)
		assert.Empty(t, out)
	}
	_, _, errs = nobody.run(t, "", "create", `{"id":"x",`)
	assert.Contains(t, errs, "the rule is not JSON: unexpected end")
	_, _, errs = nobody.run(t, "", "preview", "POST", "http://a", "-d", "plain")
	assert.Contains(t, errs, "a JSON string has quotes")
	nobody.mu.Lock()
	defer nobody.mu.Unlock()
	assert.Empty(t, nobody.asked)
}

func TestRulesShown(t *testing.T) {
	t.Parallel()
	rules := `{"rules":[` + rule1 + `,
		{"id":"m","group":"default","type":"mock","enabled":false,"priority":-3,"match":{"url_pattern":"http://\u001b[2J/","method":"GET"},"action":{"status":503,"body_mode":"json","body":{"a": "<b>"}},"scope":{"agent":"A","request_id":"r"}},
		{"id":"h","type":"headers","enabled":true,"match":{"url_pattern":"*"},"action":{"request_headers":[{"op":"set","name":"x-a","value":"1"}],"response_headers":[{"op":"remove","name":"x-b"}]},"expires_at":"2001-01-01T00:00:00Z"},
		{"id":"r","type":"redirect","enabled":true,"match":{"url_pattern":"*"},"action":{"to_url":"http://b.example/$1"},"expires_at":"2999-01-01T00:00:00Z"}
		],"rules_etag":"etag-9-z"}`
	rules = strings.NewReplacer("\n", "", "\t", "").Replace(rules)
	s := script(t, "rules.list "+rules, `status {"global_active":false,"rule_count":4,"rules_etag":"etag-9-z"}`)
	code, out, errs := s.run(t, "", "list", "--group", "g")
	assert.Equal(t, ExitOK, code, errs)
	assert.Equal(t, "all rules are off: `weir rules on` lets them take effect\netag-9-z\n", errs)
	for _, want := range []string{
		"slow  delay     enabled", "5ms", "m     mock      disabled", `503 {"a":"<b>"}`, "agent=A request=r", "expired",
		"set x-a, remove response x-b", "until 2999-01-01 00:00Z", "http://b.example/$1", "http://\\u001b[2J/",
	} {
		assert.Contains(t, out, want)
	}
	assert.Equal(t, map[string]any{"group": "g"}, s.args(t, 0))

	s = script(t, "rules.list "+rules)
	code, out, errs = s.run(t, "", "list", "--json")
	assert.Equal(t, ExitOK, code, errs)
	assert.JSONEq(t, rules, out)
	for group, next := range map[string]string{"": "weir rules create --help", "g\x1b": "in group g\\u001b; `weir rules ls`"} {
		none := script(t, `rules.list {"rules":[],"rules_etag":"etag-0-z"}`, `status {"global_active":true,"rule_count":0,"rules_etag":"etag-0-z"}`)
		code, out, told := none.run(t, "", "list", "--group", group)
		assert.Equal(t, ExitOK, code, told)
		assert.Empty(t, out)
		assert.Contains(t, told, "there are no rules")
		assert.Contains(t, told, next)
	}
	assert.Empty(t, errs)

	s = script(t, `rules.get {"rule":`+rule1+`,"rules_etag":"etag-9-z"}`, status1)
	code, out, errs = s.run(t, "", "get", "slow")
	assert.Equal(t, ExitOK, code)
	assert.Equal(t, "etag-9-z\n", errs)
	assert.Contains(t, out, "\n  \"id\": \"slow\",\n")
	_, out, _ = s.run(t, "", "status")
	assert.Equal(t, "rules are on; 1 of them; etag-1-a\n", out)
}

// TestRulesRefused: what answers need not be a Weir, a preview and a recording are refused with a problem, and who
// rehearses must know that a call goes out.
func TestRulesRefused(t *testing.T) {
	t.Parallel()
	const problem, none = "application/problem+json", `{"title":"Not Found","detail":"there is no such route","code":"NOT_FOUND"}`
	const inFlight = `{"type":"about:blank","title":"Conflict","status":409,"code":"IN_FLIGHT","detail":"not \u001b[2Jyet","retryable":true}`
	const said = "weir: not \\u001b[2Jyet (IN_FLIGHT)\n"
	const partly = `{"rules":[],"skipped":[{"step":1,"reason":"same","rule":"slow"},{"step":2,"reason":"no answer came"}]}`
	const goesOut = "weir: step 1 is not recorded: same\nweir: step 2 is not recorded: no answer came\nweir: a rehearsal is not without effect: calls of its that go out: 1\n"
	examples(t, "rules", map[string]example{
		"a page":               {args: "list", status: 404, kind: "text/html", answer: "<html>", code: ExitFailed, errs: "the server answered 404 Not Found"},
		"a problem":            {args: "list", status: 404, kind: problem, answer: none, code: ExitFailed, errs: "there is no such route (NOT_FOUND)"},
		"another document":     {args: "list", answer: `{"a":1}`, code: ExitFailed, errs: "no agent response"},
		"both":                 {args: "list", answer: `{"ok":true,"error":{"code":"X"}}`, code: ExitFailed, errs: "no agent response"},
		"nothing":              {args: "list", code: ExitFailed, errs: "no agent response"},
		"odd data":             {args: "list", answer: `{"ok":true,"data":[]}`, code: ExitFailed, errs: "cannot be read"},
		"a recording":          {args: "record a1", status: 409, kind: problem, answer: inFlight, code: ExitFailed, errs: said},
		"a recording, as JSON": {args: "record a1 --json", status: 409, kind: problem, answer: inFlight + "\n", code: ExitFailed, errs: inFlight + "\n"},
		"a preview":            {args: "preview GET http://a/", status: 409, kind: problem, answer: inFlight, code: ExitFailed, errs: said},
		"an incomplete one":    {args: "record a1 --dry-run --json", answer: partly, code: ExitFailed, out: partly + "\n", errs: goesOut},
	})
}

// TestRulesRecorded: a recording becomes rules, in the group and for as long as the flags say. One that was recorded before
// is refused, and the others are made.
func TestRulesRecorded(t *testing.T) {
	t.Parallel()
	recording := `{"rules":[{"id":"rec-1-1","group":"g","type":"mock","enabled":true,"priority":0,"match":{"url_pattern":"http://a/","method":"GET","include_query":true},"action":{"status":200}}],` +
		`"skipped":[{"step":2,"reason":"it is the same","rule":"rec-1-1"}]}`
	var requests []string
	front := func(s *scripted) (url string) {
		return served(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/rules/record" {
				s.ServeHTTP(w, r)
				return
			}
			body, _ := io.ReadAll(r.Body)
			requests = append(requests, string(body))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, recording)
		})
	}
	s := script(t, status1, `rules.create {"rules_etag":"e"}`)
	code, out, errs := command(t, "rules", "record", "a1", "--group", "g", "--request-id", "r1", "--server", front(s))
	assert.Equal(t, ExitOK, code, errs)
	assert.Equal(t, "rule rec-1-1 answers GET http://a/; e\n", out)
	assert.Equal(t, "weir: step 2 is not recorded: it is the same\n", errs)
	assert.Contains(t, requests[0], `"action_id":"a1","group":"g","scope":{"request_id":"r1"},"expires_at":"`)
	assert.Equal(t, true, s.args(t, 1)["create_group_if_missing"])
	s = script(t, status1, "rules.create VALIDATION_ERROR|RULE_EXISTS")
	code, _, errs = command(t, "rules", "record", "a1", "--expires-in", "0", "--server", front(s))
	assert.Equal(t, ExitFailed, code)
	assert.Equal(t, "weir: rule rec-1-1 of an earlier recording stays as it is; `weir rules patch rec-1-1 PATCH` changes it\n", strings.TrimPrefix(errs, "weir: step 2 is not recorded: it is the same\n"))
	assert.JSONEq(t, `{"action_id":"a1"}`, requests[1])
	code, out, errs = command(t, "rules", "record", "a1", "--dry-run", "--json", "--server", front(script(t)))
	assert.Equal(t, ExitOK, code, errs)
	assert.JSONEq(t, recording, out)
	_, out, _ = command(t, "rules", "record", "a1", "--dry-run", "--server", front(script(t)))
	assert.Contains(t, out, "rec-1-1  mock  enabled")
	recording = strings.Replace(recording, `"rules":[`, `"rules":[{"id":"rec-1-0","type":"mock","match":{"url_pattern":"http://a/"},"action":{}},`, 1)
	s = script(t, status1, "rules.create VALIDATION_ERROR|RULE_EXISTS", `rules.create {"rules_etag":"e"}`)
	code, out, errs = command(t, "rules", "record", "a1", "--server", front(s))
	assert.Equal(t, ExitFailed, code)
	assert.Equal(t, "rule rec-1-1 answers GET http://a/; e\n", out, "an earlier recording may have ended before this one")
	assert.Contains(t, errs, "weir rules patch rec-1-0 PATCH")
}

func TestPreviewed(t *testing.T) {
	t.Parallel()
	mocked := previewed(schemas.Preview{
		GlobalActive: true, RulesEtag: "e", Result: schemas.PreviewMocked, Method: "GET", URL: "http://a/", DelayMS: 1500,
		Headers:         map[string]string{"x-a": "1"},
		Mock:            &schemas.PreviewAnswer{Status: 204, Headers: map[string]string{"x-b": "2"}},
		ResponseHeaders: []schemas.HeaderChange{{Op: "remove", Name: "x-c"}},
		Rules:           []schemas.RuleVerdict{{ID: "m", Type: "mock", Applies: true}, {ID: "other", Type: "redirect", Reason: "m comes first"}},
	})
	for _, want := range []string{"mocked: nothing", "call      GET http://a/", "header    x-a: 1", "1.5s", "answer    204\n", "x-b: 2", "remove response header x-c\n", "    m      mock      applies\n", "    other  redirect  does not apply: m comes first\n"} {
		assert.Contains(t, mocked, want)
	}
	denied := previewed(schemas.Preview{RulesEtag: "e", Result: schemas.PreviewDenied, Decision: schemas.Decision{Code: schemas.DenyRule, Reason: "because"}})
	assert.Contains(t, denied, "denied: DENY_RULE\n  why       because\n")
	assert.Contains(t, denied, fmt.Sprintf("  %-10s%s", "rules", "e, all rules are off\n"))
}
