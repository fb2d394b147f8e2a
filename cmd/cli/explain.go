package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// policyFlags choose the policy that a command is for: a running Weir's, or a configuration file's.
type policyFlags struct {
	clientFlags
	config string
}

func (f *policyFlags) register(cmd *cobra.Command, env *Env) {
	f.clientFlags.register(cmd, env)
	cmd.Flags().StringVar(&f.config, "config", "", "use the policy of this configuration file, and not a running Weir's")
}

// source is the policy of the configuration file that a flag names, or else of a running Weir; local says which. A
// running Weir decides for the token, and not for a list of entries.
func (f *policyFlags) source(cmd *cobra.Command, env *Env) (c *api, p Policy, local bool, err error) {
	local = cmd.Flags().Changed("config")
	switch {
	case local && cmd.Flags().Changed("server"):
		return nil, p, local, usagef("--config and --server name two policies; give one of them")
	case local:
		p, err = env.Policy(f.config)
		return &api{Streams: env.Streams, asJSON: f.asJSON}, p, local, err
	}
	c, err = f.client(env)
	return c, Policy{
		View: func() (schemas.PolicyView, error) { return get[schemas.PolicyView](cmd.Context(), c, routePolicy, nil) },
		Explain: func(req schemas.ExplainRequest, _ []string) (schemas.Explanation, error) {
			return c.Explain(cmd.Context(), req)
		},
	}, local, err
}

type callFlags struct {
	bodyFlags
	headers         []string
	key, idempotent string
}

func newPolicyExplain(env *Env) *cobra.Command {
	var f struct {
		policyFlags
		callFlags
	}
	cmd := &cobra.Command{
		Use:   "explain METHOD URL",
		Short: "Explain whether the policy allows a call",
		Long: `Explain the decision of the policy on a call, without making it: the entry that decides,
the check that refuses, the change that would allow the call, the retries and the
idempotency key of the call, and the result of every entry.

The policy is the one in force on a running Weir, or with --config the one of a file. No
name is resolved: Weir checks addresses when it makes a call. Exit 3 if the call is
denied. For a CONNECT through the forward proxy, write host:port in place of the URL.`,
		Example: `  weir policy explain GET https://api.example.com/orders
  weir policy explain CONNECT git.example.com:443
  weir policy explain POST https://api.example.com/orders -d '{"item":7}' --key orders
  weir policy explain GET http://localhost:8080/ --config weir.yaml --json`,
		Args: Exactly(2, "a method and a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := f.request(env, args[0], args[1])
			if err != nil {
				return err
			}
			c, p, _, err := f.source(cmd, env)
			if err != nil {
				return err
			}
			x, err := p.Explain(req, nil)
			if err != nil {
				return err
			}
			code := ExitOK
			if !x.Allowed {
				code = exitOf(x.Code)
			}
			return c.printVerdict(x, explained(x), code)
		},
	}
	f.register(cmd, env)
	f.bind(cmd, "would get")
	return cmd
}

// bind adds the flags. gets says what becomes of the key: the target gets it, or would get it.
func (f *callFlags) bind(cmd *cobra.Command, gets string) {
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a request header, `'Name: value'`; may be repeated")
	f.bodyFlags.bind(cmd.Flags())
	cmd.Flags().StringVar(&f.key, "key", "", "the entry of the policy to use (default the first that matches)")
	cmd.Flags().StringVar(&f.idempotent, "upstream-idempotency-key", "", "the Idempotency-Key that the target "+gets)
}

func (f *callFlags) request(env *Env, method, target string) (req schemas.ExplainRequest, err error) {
	req = schemas.ExplainRequest{Method: method, URL: target, AllowlistKey: f.key, IdempotencyKey: f.idempotent}
	if req.Headers, err = headersOf(f.headers); err != nil {
		return req, err
	}
	name, value, err := f.member(env)
	switch name {
	case "body":
		req.Body = value
	case "body_base64":
		req.BodyBase64 = value
	case "form":
		req.Form = value
	}
	return req, err
}

func explained(x schemas.Explanation) string {
	lines := labelled{width: 8}
	if x.Allowed {
		fmt.Fprintf(&lines, "allowed by %s\n", x.Entry)
		lines.add("class", classText(x.Class))
		if c := x.Contract; c != nil {
			lines.add("retries", retriesText(x.Class, c))
			lines.add("key", keyText(c))
			if c.Probe {
				lines.add("probe", "after a lost answer, a request to the target shows whether the call was applied")
			}
			lines.add("schema", c.ResponseSchema)
		}
	} else {
		fmt.Fprintf(&lines, "denied: %s\n", x.Code)
		lines.add("entry", x.Entry)
		lines.add("check", x.Check)
		lines.add("why", x.Reason)
		lines.add("remedy", x.Remedy)
	}
	lines.add("shadow", shadowText(x.Shadow))
	lines.add("policy", x.Version)
	if len(x.Entries) > 0 {
		fmt.Fprintln(&lines, "entries")
	}
	table := newTable(&lines)
	for _, e := range x.Entries {
		word := "fits"
		if !e.Fits {
			word = e.Check + ": " + e.Reason
		}
		if e.Mode == "shadow" {
			word = "(shadow) " + word
		}
		printRow(table, "  "+e.Entry, word)
	}
	_ = table.Flush() // to a buffer: cannot fail
	return lines.String()
}

// labelled is a text of lines with a label before each.
type labelled struct {
	strings.Builder
	width int // of a label
}

// add adds a line, if it has a text.
func (l *labelled) add(label, text string) {
	if text != "" {
		fmt.Fprintf(l, "  %-*s%s\n", l.width, label, text)
	}
}

func shadowText(s *schemas.Shadow) string {
	switch {
	case s == nil:
		return ""
	case s.Allowed:
		return "would be allowed by " + s.Entry
	case s.Entry == "":
		return fmt.Sprintf("would be denied: %s, %s", s.Code, s.Reason)
	default:
		return fmt.Sprintf("would be denied by %s: %s, %s", s.Entry, s.Code, s.Reason)
	}
}

func classText(c schemas.Class) string {
	switch c {
	case schemas.ClassSafe, schemas.ClassIdempotent:
		return string(c) + ": tried again if its result is lost"
	case schemas.ClassKeyed:
		return string(c) + ": tried again with the same key if its result is lost"
	case schemas.ClassOnce:
		return string(c) + ": sent once, never again"
	default:
		return string(c)
	}
}

// retriesText says how often a call of a class is repeated, and after what.
func retriesText(class schemas.Class, c *schemas.Contract) string {
	if c.Attempts <= 1 {
		return "none"
	}
	after := "a failure to connect or to send"
	if class.Repeatable() {
		after = "a lost answer or status " + strings.Join(c.RetryOn, ", ")
	}
	text := fmt.Sprintf("up to %d attempts, %s to %s apart, after %s", c.Attempts, c.Base, c.Cap, after)
	if never := neverText(c.NeverRetry); never != "" {
		text += "; never after " + never
	}
	return text
}

// neverText is the answers after which a call is not repeated.
func neverText(n *schemas.EntryNeverRetry) string {
	if n == nil {
		return ""
	}
	var all []string
	for _, status := range n.Status {
		all = append(all, strconv.Itoa(status))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Header)) {
		all = append(all, name+": "+n.Header[name])
	}
	return strings.Join(all, ", ")
}

// keyText is the idempotency key that a call is sent with.
func keyText(c *schemas.Contract) string {
	var text string
	switch c.Key {
	case schemas.KeyCaller:
		text = "the caller's, sent as " + c.KeyHeader
	case schemas.KeyDerived:
		text = "derived by Weir, sent as " + c.KeyHeader
	default:
		return ""
	}
	if c.KeyTTL != "" {
		text += ", valid for " + c.KeyTTL
	}
	if c.RequiresKey {
		text += ", required by the entry"
	}
	return text
}

// deliveryText is the delivery contract and the limits of an entry.
func deliveryText(e schemas.EntryView) string {
	var keys, attempts, on, probe, schema, rate, concurrency string
	if e.UpstreamIdempotencyTTL != "" {
		keys = e.UpstreamIdempotencyTTL
		switch {
		case e.DerivesKey:
			keys += " derived"
		case e.RequiresKey:
			keys += " required"
		}
	}
	if r := e.Retry; r != nil {
		attempts = strconv.Itoa(r.Attempts)
		on = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.On), " ", ", "), "[]")
	}
	if e.Reconcile != nil {
		probe = e.Reconcile.Method
	}
	if e.ResponseSchema != nil {
		schema = e.ResponseSchema.Mode
	}
	if l := e.Limits; l != nil {
		rate = l.Rate
		if l.Concurrency > 0 {
			concurrency = strconv.Itoa(l.Concurrency)
		}
	}
	return labels(": ", "; ", "keys", keys, "attempts", attempts, "retry on", on, "never retry", neverText(e.NeverRetry),
		"probe", probe, "schema", schema, "rate", rate, "concurrency", concurrency)
}
