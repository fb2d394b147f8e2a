package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

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
body, idempotency_key, and entries (the only ones that the token may use).

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
				return usageError{err}
			}
			c, p, local, err := f.source(cmd, env)
			if err != nil {
				return err
			}
			for _, one := range cases {
				if one.entries != nil && !local {
					return usageError{fmt.Errorf("%s:%d: entries: only for a local configuration; with --server the token says which may be used", args[0], one.line)}
				}
			}
			return c.testPolicy(args[0], cases, p)
		},
	}
	f.register(cmd, env)
	return cmd
}

// testPolicy decides every case and prints how it came out.
func (c *api) testPolicy(file string, cases []policyCase, p Policy) error {
	failed := 0
	for _, one := range cases {
		x, err := p.Explain(one.call, one.entries)
		if err != nil {
			return err
		}
		r := one.compare(x)
		if !r.Pass {
			failed++
		}
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
	if c.allow {
		r.Expected, r.Remedy = "allow", x.Remedy
	}
	r.Wanted = labels(" ", " ", "by", c.by, "because", string(c.because))
	r.Pass = x.Allowed == c.allow && (c.by == "" || c.by == x.Entry) && (c.because == "" || c.because == x.Code)
	if r.Pass {
		r.Wanted, r.Remedy = "", ""
	}
	return r
}

// text is the result for a person: one line.
func (r caseResult) text(file string) string {
	word := map[bool]string{true: "PASS", false: "FAIL"}[r.Pass]
	decided := "allowed" + labels(" ", "", " by", r.Entry)
	if !r.Allowed {
		reason := r.Reason
		if r.Remedy != "" { // the remedy is the better advice
			reason, _, _ = strings.Cut(reason, "; ")
			reason += "; to allow it, " + r.Remedy
		}
		decided = "denied" + labels(" ", "", " by", r.Entry) + ", " + joined(": ", string(r.Code), reason)
	}
	return fmt.Sprintf("%s %s:%d %s: %s", word, file, r.Line, joined(" ", r.Expected, r.Method, r.URL, r.Wanted), decided)
}
