package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// policyFlags say whose policy a command is about: the local configuration's, or a running Weir's.
type policyFlags struct {
	clientFlags
	config string
}

func (f *policyFlags) register(cmd *cobra.Command, env *Env) {
	f.clientFlags.register(cmd, env)
	cmd.Flags().Lookup("server").DefValue = "" // without it, no server is asked
	cmd.Flags().Lookup("server").Usage = "ask the Weir at this URL instead of the local configuration"
	cmd.Flags().StringVar(&f.config, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	cmd.MarkFlagsMutuallyExclusive("config", "server")
}

// source is a running Weir if a flag names one, and else the local policy, whose functions are nil otherwise.
func (f *policyFlags) source(cmd *cobra.Command, env *Env) (c *api, p Policy, err error) {
	if cmd.Flags().Changed("server") {
		c, err = f.client(env)
		return c, p, err
	}
	p, err = env.Policy(f.config)
	return &api{Streams: env.Streams, asJSON: f.asJSON}, p, err
}

// callFlags describe the call that is asked about.
type callFlags struct {
	headers               []string
	data, key, idempotent string
}

func newPolicyExplain(env *Env) *cobra.Command {
	var f struct {
		policyFlags
		callFlags
	}
	cmd := &cobra.Command{
		Use:   "explain METHOD URL",
		Short: "say whether a call would be allowed, why not, and what would change that",
		Long: `Say what the policy says of a call, without making it: which entry decides,
which check refuses, what would make it pass, and what every entry says.

The policy is that of the local configuration, or with --server the one in force
on a running Weir. No name is resolved: addresses are checked when a call is made.
Exit 1 if the call is denied.`,
		Example: `  weir policy explain GET https://api.example.com/orders
  weir policy explain POST https://api.example.com/orders -d '{"item":7}' --key orders
  weir policy explain GET http://localhost:8080/ --server http://127.0.0.1:8092 --json`,
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
			var x schemas.Explanation
			if p.Explain != nil {
				x = p.Explain(req, nil)
			} else if x, err = c.Explain(cmd.Context(), req); err != nil {
				return err
			}
			err = printPlain(c.Out, c.asJSON, x, func() string { return explained(x) })
			if err == nil && !x.Allowed {
				return quietError{}
			}
			return err
		},
	}
	f.register(cmd, env)
	f.bind(cmd)
	return cmd
}

func (f *callFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a request header, `'Name: value'`; may be repeated")
	cmd.Flags().StringVarP(&f.data, "data", "d", "", "the body: JSON, or @FILE")
	cmd.Flags().StringVar(&f.key, "key", "", "the allowlist entry to go by")
	cmd.Flags().StringVar(&f.idempotent, "upstream-idempotency-key", "", "the Idempotency-Key that the target would get")
}

func (f *callFlags) request(env *Env, method, target string) (req schemas.ExplainRequest, err error) {
	req = schemas.ExplainRequest{Method: method, URL: target, AllowlistKey: f.key, IdempotencyKey: f.idempotent}
	if req.Headers, err = headersOf(f.headers); err == nil && f.data != "" {
		req.Body, err = env.document("body", f.data)
	}
	return req, err
}

// explained is an explanation for a person.
func explained(x schemas.Explanation) string {
	lines := labelled{width: 8}
	if x.Allowed {
		fmt.Fprintf(&lines, "allowed by %s\n", x.Entry)
		lines.add("class", classText(x.Class))
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
