package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"weir/schemas"
)

func newPolicy(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use: "policy", Short: "Show, explain, test and reload the policy",
		Example: `  weir policy show
  weir policy explain GET https://api.example.com/orders
  weir policy reload`,
	}, newPolicyShow(env), newPolicyExplain(env), newPolicyTest(env), newPolicyReload(env))
}

func newPolicyReload(env *Env) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the policy of a running Weir",
		Long: `Reload the configuration of a running Weir and put its policy in force. When this
returns, that node begins no call that the policy denies. A policy with a mistake changes
nothing.

Each node of a cluster reads its own file. With --all every node reloads, and the output
has a line for each. Exit 1 if a node refused, or if the nodes do not have the same policy
afterwards. A node that cannot be reached is not in the list.`,
		Example: `  weir policy reload
  weir policy reload --all --json`,
		Args: Exactly(0, "no arguments"),
	}
	cmd.Flags().BoolVar(&all, "all", false, "reload every node of the cluster, not only the one at the URL")
	return (&clientFlags{words: true}).command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		var req any
		if all {
			req = schemas.ReloadRequest{All: true}
		}
		done, err := post[schemas.Reload](ctx, c, routePolicy+"/reload", req)
		if err != nil {
			return err
		}
		code := ExitOK
		if !agree(done.Nodes) {
			code = ExitFailed
		}
		return c.printVerdict(done, reloadText(done), code)
	})
}

// reloadText says what became of a reload: of one node, or a line for each.
func reloadText(done schemas.Reload) string {
	var text strings.Builder
	if len(done.Nodes) == 0 {
		fmt.Fprintln(&text, reloaded(done.Version, done.Previous, done.Changed))
		if done.Node != "" {
			fmt.Fprintf(&text, "that is node %s: the others have files of their own, and --all asks each\n", done.Node)
		}
	}
	for _, n := range done.Nodes {
		result := reloaded(n.Version, n.Previous, n.Changed)
		switch {
		case n.Version == "":
			result = n.Error
		case n.Error != "":
			result = fmt.Sprintf("policy %s is in force as before: %s", n.Version, n.Error)
		}
		fmt.Fprintf(&text, "%s %s: %s\n", n.Role, n.Node, result)
	}
	if !agree(done.Nodes) {
		fmt.Fprintf(&text, "the %d nodes do not have the same policy\n", len(done.Nodes))
	}
	return text.String()
}

func reloaded(version, previous string, changed bool) string {
	switch {
	case changed && version == previous:
		return fmt.Sprintf("the agents, the models or their budgets have changed: policy %s is in force as before", version)
	case changed:
		return fmt.Sprintf("policy %s is in force, in place of %s", version, previous)
	default:
		return fmt.Sprintf("nothing changed: policy %s is in force", version)
	}
}

func agree(nodes []schemas.NodeReport) bool {
	for _, n := range nodes {
		if n.Error != "" || n.Version != nodes[0].Version {
			return false
		}
	}
	return true
}

func newPolicyShow(env *Env) *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the entries of the policy",
		Long: `Show the entries of the policy in the order in which they are tried: the URLs of each, the
names of the headers and members that it adds to a call, and what callers may set. A *
or "any" means that callers may set everything that is not forbidden for all. DELIVERY has the
retries, the idempotency keys, the probe, the response schema and the limits of an entry.

The policy is the one in force on a running Weir, or with --config the one of a file.`,
		Example: `  weir policy show
  weir policy show --server http://127.0.0.1:8093 --json
  weir policy show --config weir.yaml`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, err := f.source(cmd, env)
			if err != nil {
				return err
			}
			v, err := p.View()
			if err != nil || c.asJSON {
				return c.print(v, err, "")
			}
			return printPolicy(c.Out, v)
		},
	}
	f.register(cmd, env)
	return cmd
}

func printPolicy(out io.Writer, v schemas.PolicyView) error {
	list := func(names []string) string { return strings.Join(names, ", ") }
	table := newTable(out)
	fmt.Fprintln(table, "ENTRY\tMODE\tMETHODS\tURL PREFIX\tNETWORK\tADDS\tCALLERS MAY SET\tDELIVERY")
	for _, e := range v.Entries {
		adds := labels(": ", "; ", "headers", list(e.Headers), "query", list(e.Query), "body", list(e.Body))
		callers := labels(": ", "; ", "headers", list(e.CallerHeaders), "params", list(e.CallerParams), "members", list(e.Pass))
		if adds == "" && callers == "" && !e.Agent {
			callers = "any"
		}
		printRow(table, e.Name, e.Mode, orDash(strings.Join(e.Methods, " ")), orDash(e.URLPrefix),
			orDash(strings.Join(append([]string{e.Network}, e.CIDRs...), " ")), orDash(adds), orDash(callers), orDash(deliveryText(e)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "allowed hosts: %s\nversion: %s\n", cmp.Or(list(v.AllowedHosts), "none"), v.Version)
	return err
}

// caseResult is how a case came out: a line of JSON.
type caseResult struct {
	Line     int          `json:"line"`
	Pass     bool         `json:"pass"`
	Expected string       `json:"expected"`
	Method   string       `json:"method"`
	URL      string       `json:"url"`
	Allowed  bool         `json:"allowed"`
	Entry    string       `json:"entry,omitempty"`
	Code     schemas.Code `json:"code,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Remedy   string       `json:"remedy,omitempty"`
	Wanted   string       `json:"wanted,omitempty"` // what a case that fails wanted beyond allow or deny
}

func newPolicyTest(env *Env) *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "test CASES.yaml",
		Short: "Test a policy with a file of calls that it must allow or deny",
		Long: `Test a policy with a file of calls that it must allow or deny. Nothing is resolved or sent,
and each call is decided as by "policy explain". A case is an item of a YAML list:

  - allow: GET https://api.example.com/orders
  - deny: DELETE https://api.example.com/orders
    because: DENY_METHOD

Other keys: by (the entry that must decide), key (the entry that the call names), headers,
body, body_text, body_base64, form, idempotency_key, and entries (the only ones that the token
may use).

The policy is the one in force on a running Weir, as far as the token may use it, or with
--config the one of a file.

Exit codes:
  0  every case passed
  1  a case failed
  2  the file, the configuration or the command line is wrong; no case was decided`,
		Example: `  weir policy test cases.yaml
  weir policy test --config weir.yaml cases.yaml
  weir policy test --server http://127.0.0.1:8092 --json - < cases.yaml`,
		Args: Exactly(1, "a file of cases, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := env.read(args[0], maxText)
			if err != nil {
				return err
			}
			cases, err := readCases(args[0], data)
			if err != nil {
				return Usage(err)
			}
			c, p, err := f.source(cmd, env)
			if err != nil {
				return err
			}
			for _, one := range cases { // before any is decided
				if one.Entries != nil && !cmd.Flags().Changed("config") {
					return usagef("%s:%d: entries: only for a local configuration; with --server the token says which may be used", args[0], one.line)
				}
			}
			return c.testPolicy(args[0], cases, p)
		},
	}
	f.register(cmd, env)
	return cmd
}

func (c *api) testPolicy(file string, cases []policyCase, p Policy) error {
	results, failed := make([]caseResult, len(cases)), 0
	for i, one := range cases {
		x, err := p.Explain(one.call, one.Entries)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, one.line, err)
		}
		if results[i] = one.compare(x); !results[i].Pass {
			failed++
		}
	}
	for _, r := range results {
		if err := c.print(r, nil, "%s", r.text(file)); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.Err, "%d cases: %d passed, %d failed\n", len(cases), len(cases)-failed, failed)
	if failed > 0 {
		return Printed()
	}
	return nil
}

// compare holds the explanation of a call against its case.
func (c *policyCase) compare(x schemas.Explanation) caseResult {
	r := caseResult{
		Line: c.line, Expected: "deny", Method: c.call.Method, URL: c.call.URL,
		Allowed: x.Allowed, Entry: x.Entry, Code: x.Code, Reason: x.Reason,
	}
	if c.Allow != "" {
		r.Expected, r.Remedy = "allow", x.Remedy
	}
	r.Wanted = labels(" ", " ", "by", c.By, "because", string(c.Because))
	r.Pass = x.Allowed == (c.Allow != "") && (c.By == "" || c.By == x.Entry) && (c.Because == "" || c.Because == x.Code)
	if r.Pass {
		r.Wanted, r.Remedy = "", ""
	}
	return r
}

func (r caseResult) text(file string) string {
	word := map[bool]string{true: "PASS", false: "FAIL"}[r.Pass]
	decided := "allowed" + labels(" ", "", " by", r.Entry)
	if !r.Allowed {
		reason := r.Reason
		if r.Remedy != "" { // the hint is the better advice
			reason, _, _ = strings.Cut(reason, "; ")
			reason += "; to allow it, " + r.Remedy
		}
		decided = "denied" + labels(" ", "", " by", r.Entry) + ", " + joined(": ", string(r.Code), reason)
	}
	return fmt.Sprintf("%s %s:%d %s: %s", word, file, r.Line, joined(" ", r.Expected, r.Method, r.URL, r.Wanted), decided)
}

// policyCase is a call, and what the policy must say of it.
type policyCase struct {
	Allow   string       `yaml:"allow"`
	Deny    string       `yaml:"deny"`
	By      string       `yaml:"by"`      // the entry that must decide; empty: any
	Because schemas.Code `yaml:"because"` // the code of the denial; empty: any
	// Entries are the only ones that the caller may use; nil: all.
	Entries        []string          `yaml:"entries"`
	Key            string            `yaml:"key"`
	Headers        map[string]string `yaml:"headers"`
	Body           any               `yaml:"body"`
	BodyText       any               `yaml:"body_text"`
	BodyBase64     any               `yaml:"body_base64"`
	Form           any               `yaml:"form"`
	IdempotencyKey string            `yaml:"idempotency_key"`

	line int
	call schemas.ExplainRequest
}

// readCases reads a YAML list of cases. The error joins one for each mistake, with its line.
func readCases(name string, data []byte) (cases []policyCase, err error) {
	defer func() {
		if recover() != nil { // the parser fails so on some broken texts
			err = fmt.Errorf("%s: it is not YAML", name)
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
		return nil, fmt.Errorf("%s:%d: it is not YAML: %s", name, syntax.Token.Position.Line, syntax.Message)
	}
	var list *ast.SequenceNode
	if err == nil && len(file.Docs) > 0 {
		list, _ = file.Docs[0].Body.(*ast.SequenceNode)
	}
	if list == nil || len(list.Values) == 0 {
		return nil, fmt.Errorf("%s: it is not a list of cases; write one a line, such as: - allow: GET https://api.example.com/orders", name)
	}
	for _, node := range list.Values {
		c := policyCase{line: lineOf(node)}
		if wrong := c.read(node); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s:%d: %w", name, c.line, wrong))
		}
		cases = append(cases, c)
	}
	return cases, err
}

// lineOf is the line on which a case begins.
func lineOf(node ast.Node) int {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// read reads a case.
func (c *policyCase) read(node ast.Node) error {
	if err := yaml.NodeToValue(node, c, yaml.Strict()); err != nil {
		if wrong, ok := errors.AsType[yaml.Error](err); ok {
			return fmt.Errorf("it is not a case: %s; see `weir policy test --help`", wrong.GetMessage())
		}
		return fmt.Errorf("it is not a case: %w; see `weir policy test --help`", err)
	}
	var given map[string]any
	_ = yaml.NodeToValue(node, &given) // it can: c has them
	for _, name := range []string{"because", "by", "entries", "headers", "idempotency_key", "key"} {
		if value, ok := given[name]; ok && (value == nil || value == "") {
			return errors.New(name + ": it is empty, and would test nothing; leave it out")
		}
	}
	parts := strings.Fields(c.Allow + c.Deny)
	switch {
	case (c.Allow == "") == (c.Deny == ""):
		return errors.New("give one of allow and deny")
	case len(parts) != 2 || !schemas.KnownMethod(strings.ToUpper(parts[0])) && !strings.EqualFold(parts[0], "CONNECT"): //nolint:mnd // a method and a URL
		return errors.New("write a method and a URL after allow or deny, such as GET https://api.example.com/orders; methods are " + strings.Join(schemas.Methods(), ", ") + ", and CONNECT with host:port")
	case c.Allow != "" && c.Because != "":
		return errors.New("because: only for deny; remove it")
	case c.Because != "" && !slices.Contains(schemas.DenyCodes(), c.Because):
		return fmt.Errorf("because: %q is not the code of a denial; the codes are %s", c.Because, strings.Join(texts(schemas.DenyCodes()...), ", "))
	case c.Entries != nil && (len(c.Entries) == 0 || slices.Contains(c.Entries, "")):
		return errors.New("entries: write the names of entries, such as [orders]; leave it out for all")
	}
	c.call = schemas.ExplainRequest{
		Method: strings.ToUpper(parts[0]), URL: parts[1], Headers: c.Headers, AllowlistKey: c.Key, IdempotencyKey: c.IdempotencyKey,
	}
	var err error
	for value, to := range map[*any]*json.RawMessage{
		&c.Body: &c.call.Body, &c.BodyText: &c.call.BodyText, &c.BodyBase64: &c.call.BodyBase64, &c.Form: &c.call.Form,
	} {
		if *value != nil {
			var wrong error
			*to, wrong = json.Marshal(*value)
			err = errors.Join(err, wrong)
		}
	}
	return err
}
