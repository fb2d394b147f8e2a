// Package check checks a service against the run contract: it requests its health,
// one run on each route, an unknown task type and a run without an id,
// and checks the answers by a table of rules.
//
// The answers are untrusted: they are bounded in size and in time, redirects
// are not followed, and the report quotes only the beginning of a text.
package check

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// Target is one service and a task type that it is to run.
type Target struct {
	URL      string // without a slash at the end
	TaskType string
}

// Config bounds a check. Its zero value has the defaults.
type Config struct {
	// Inputs are those of every run; empty: {}.
	Inputs json.RawMessage
	// IDPrefix begins the request_id of every run: PREFIX-1 to PREFIX-3. A target that knows
	// them joins the runs of the time before. Empty: new ids each time.
	IDPrefix string
	// Token is sent as a bearer token; empty: none.
	Token string
	// FirstEvent is how soon a stream must begin, from the request on: 10 s.
	FirstEvent time.Duration
	// Timeout bounds each answer: 30 s.
	Timeout time.Duration
	// Grace is how soon a stream must close after its terminal event: 2 s.
	Grace time.Duration
}

func (c Config) withDefaults() Config {
	if len(c.Inputs) == 0 {
		c.Inputs = json.RawMessage("{}")
	}
	c.FirstEvent = cmp.Or(c.FirstEvent, 10*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 2*time.Second)
	return c
}

// Targets reads BASE=TASK_TYPE, any number in one argument with commas between.
func Targets(args []string) ([]Target, error) {
	var all []Target
	for _, arg := range args {
		for item := range strings.SplitSeq(arg, ",") {
			t, err := target(item)
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	return all, nil
}

func target(item string) (Target, error) {
	at := strings.LastIndexByte(item, '=')
	if at < 0 {
		return Target{}, fmt.Errorf("target %q has no task type; write http://host:port=TASK_TYPE", item)
	}
	base, task := item[:at], item[at+1:]
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return Target{}, fmt.Errorf("target %q is not an http or https URL", base)
	case u.User != nil || strings.ContainsAny(base, "?#"):
		return Target{}, fmt.Errorf("target %q must have no user, query or fragment", u.Redacted())
	case schemas.RunRoute(base) != "":
		return Target{}, fmt.Errorf("target %q ends in a route that is added to it; leave out %s", base, schemas.RunRoute(base))
	case !schemas.ValidID(task):
		return Target{}, fmt.Errorf("%q is no task type: letters, digits and . _ : - are, up to 128", task)
	}
	return Target{URL: strings.TrimRight(base, "/"), TaskType: task}, nil
}

// The verdicts.
const (
	Passed  = "passed"
	Failed  = "failed"
	Warning = "warning" // merely recommended, and not so
	Skipped = "skipped" // a rule that it builds on did not pass
)

// Result is what became of one rule.
type Result struct {
	ID     string `json:"id"`
	Group  string `json:"group"`
	What   string `json:"what"`
	Result string `json:"result"`
	// Passed is false of a rule that was skipped, too.
	Passed bool `json:"passed"`
	// Found is what was there instead, and Hint what to do about it.
	Found string `json:"found,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// Because is the rule that failed, where this one was skipped.
	Because string `json:"because,omitempty"`
}

// Report is what became of a target. It passed if no rule failed and none was
// skipped; warnings do not count.
type Report struct {
	Target   string   `json:"target"`
	TaskType string   `json:"task_type"`
	Passed   bool     `json:"passed"`
	Rules    []Result `json:"rules"`
}

// Run checks one target. It ends soon after ctx does, with what it has.
func Run(ctx context.Context, t Target, cfg Config) Report {
	p := &prober{target: t, cfg: cfg.withDefaults(), client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableCompression: true, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}}
	defer p.client.CloseIdleConnections()
	answers := p.look(ctx)
	r := Report{Target: t.URL, TaskType: t.TaskType, Passed: true}
	blamed := map[string]string{} // the rule that failed, of each rule that did not pass
	for _, rule := range rules() {
		result := rule.check(answers[rule.about()], blamed)
		switch result.Result {
		case Failed:
			blamed[rule.id] = rule.id
		case Skipped:
			blamed[rule.id] = result.Because
		}
		r.Passed = r.Passed && blamed[rule.id] == ""
		r.Rules = append(r.Rules, result)
	}
	return r
}

// check gives the verdict of the rule, after those of the rules that it needs.
func (r rule) check(a *answer, blamed map[string]string) Result {
	result := Result{ID: r.id, Group: r.group(), What: r.what, Result: Passed, Passed: true}
	for need := range strings.FieldsSeq(r.needs) {
		if blame := blamed[need]; blame != "" {
			result.Result, result.Passed, result.Because = Skipped, false, blame
			return result
		}
	}
	found := r.broken(a)
	if found == "" {
		return result
	}
	result.Result, result.Passed, result.Found, result.Hint = Failed, false, found, r.fix(a)
	if r.advice() {
		result.Result = Warning
	}
	return result
}

type prober struct {
	target Target
	cfg    Config
	client *http.Client
}

// look sends every request, and returns the answers by the words that rules begin with. Without any answer to
// the first request it sends no others.
func (p *prober) look(ctx context.Context) map[string]*answer {
	health := p.ask(ctx, http.MethodGet, "/health", nil)
	all := map[string]*answer{"reach": health, "health": health}
	if health.none != "" {
		return all
	}
	prefix, task := cmp.Or(p.cfg.IDPrefix, "check-"+rand.Text()), p.target.TaskType
	run := func(route, id, task string) *answer {
		a := p.ask(ctx, http.MethodPost, route, p.body(id, task))
		a.id, a.task = id, task
		return a
	}
	all["ready"] = p.ask(ctx, http.MethodGet, "/health/ready", nil)
	all["sync"] = run(schemas.RouteRunSync, prefix+"-1", task)
	stream := run(schemas.RouteRunStream, prefix+"-2", task)
	start, end := *stream, *stream
	start.doc, end.doc = stream.first.doc, stream.end.doc
	all["stream"], all["start"], all["end"] = stream, &start, &end
	all["unknown"] = run(schemas.RouteRunSync, prefix+"-3", "WEIR_CHECK.NO_SUCH_TASK")
	all["malformed"] = run(schemas.RouteRunSync, "", task)
	return all
}

// body is a request with no more than it needs; without an id, it is malformed.
func (p *prober) body(id, task string) []byte {
	doc := struct {
		RequestID string          `json:"request_id,omitempty"`
		TaskType  string          `json:"task_type"`
		Inputs    json.RawMessage `json:"inputs"`
	}{id, task, p.cfg.Inputs}
	b, err := json.Marshal(doc)
	if err != nil {
		panic("check: inputs that are not JSON") // the command looked before
	}
	return b
}

// Text is the report for a person: a line for each group of rules, below it
// what is wrong there, and one line about all that could not be checked.
func (r Report) Text() string {
	var w, wrong strings.Builder
	verdict := Failed
	if r.Passed {
		verdict = Passed
	}
	fmt.Fprintf(&w, "%s %s: %s\n", r.Target, r.TaskType, verdict)
	all, group := map[string]int{}, map[string]int{} // how many rules have a verdict
	var blamed []string                              // the rules whose failure left others unchecked
	for i, rule := range r.Rules {
		all[rule.Result]++
		group[rule.Result]++
		if rule.Because != "" && !slices.Contains(blamed, rule.Because) {
			blamed = append(blamed, rule.Because)
		}
		if rule.Found != "" {
			fmt.Fprintf(&wrong, "    %-9s%s: %s\n", rule.Result, rule.ID, rule.What)
			fmt.Fprintf(&wrong, "    %-9sfound: %s\n    %-9sfix:   %s\n", "", rule.Found, "", rule.Hint)
		}
		if i+1 == len(r.Rules) || rule.Group != r.Rules[i+1].Group {
			fmt.Fprintf(&w, "  %-10s%s\n%s", rule.Group, tally(group), &wrong)
			clear(group)
			wrong.Reset()
		}
	}
	if len(blamed) > 0 {
		fmt.Fprintf(&w, "  %d rules could not be checked because %s failed\n", all[Skipped], strings.Join(blamed, " and "))
	}
	fmt.Fprintf(&w, "  %d passed, %d failed, %d skipped, %d warnings\n", all[Passed], all[Failed], all[Skipped], all[Warning])
	return w.String()
}

// tally is what became of a group, at a glance.
func tally(group map[string]int) string {
	if len(group) == 1 && group[Skipped] > 0 {
		return "not checked"
	}
	var parts []string
	for _, verdict := range []string{Failed, Warning, Passed, Skipped} {
		if n := group[verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	return strings.Join(parts, ", ")
}
