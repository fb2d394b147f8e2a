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

// source is the policy of the configuration file that a flag names, or else of a running Weir. A running Weir
// decides for the token, and not for a list of entries.
func (f *policyFlags) source(cmd *cobra.Command, env *Env) (c *api, p Policy, err error) {
	if cmd.Flags().Changed("config") {
		if cmd.Flags().Changed("server") {
			return nil, p, usagef("--config and --server name two policies; give one of them")
		}
		p, err = env.Policy(f.config)
		return &api{Streams: env.Streams, asJSON: f.asJSON}, p, err
	}
	c, err = f.client(env)
	p.View = func() (schemas.PolicyView, error) { return get[schemas.PolicyView](cmd.Context(), c, routePolicy, nil) }
	p.Explain = func(req schemas.ExplainRequest, _ []string) (schemas.Explanation, error) {
		return c.Explain(cmd.Context(), req)
	}
	return c, p, err
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
			c, p, err := f.source(cmd, env)
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
	err = f.body(env, &req)
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
	const again = ": tried again if its result is lost"
	return string(c) + map[schemas.Class]string{
		schemas.ClassSafe: again, schemas.ClassIdempotent: again,
		schemas.ClassKeyed: ": tried again with the same key if its result is lost",
		schemas.ClassOnce:  ": sent once, never again",
	}[c]
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
	text := map[string]string{schemas.KeyCaller: "the caller's", schemas.KeyDerived: "derived by Weir"}[c.Key]
	if text == "" {
		return ""
	}
	text += ", sent as " + c.KeyHeader
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
	var retry schemas.EntryRetry
	var limits schemas.EntryLimits
	var probe, schema string
	if e.Retry != nil {
		retry = *e.Retry
	}
	if e.Limits != nil {
		limits = *e.Limits
	}
	if e.Reconcile != nil {
		probe = e.Reconcile.Method
	}
	if e.ResponseSchema != nil {
		schema = e.ResponseSchema.Mode
	}
	keys := e.UpstreamIdempotencyTTL
	switch {
	case keys == "":
	case e.DerivesKey:
		keys += " derived"
	case e.RequiresKey:
		keys += " required"
	}
	on := strings.Trim(strings.ReplaceAll(fmt.Sprint(retry.On), " ", ", "), "[]")
	return labels(": ", "; ", "keys", keys, "attempts", positive(retry.Attempts), "retry on", on, "never retry", neverText(e.NeverRetry),
		"probe", probe, "schema", schema, "rate", limits.Rate, "concurrency", positive(limits.Concurrency))
}
