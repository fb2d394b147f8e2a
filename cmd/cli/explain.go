package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// explainFlags are what `weir policy explain` takes.
type explainFlags struct {
	policyFlags
	headers    []string
	data       string
	key        string
	idempotent string
}

func newPolicyExplain(env *Env) *cobra.Command {
	var f explainFlags
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
			var x schemas.Explanation
			if cmd.Flags().Changed("server") {
				x, err = f.ask(cmd.Context(), env, req)
			} else {
				var p Policy
				if p, err = env.Policy(f.config); err == nil {
					x = p.Explain(req)
				}
			}
			if err != nil {
				return err
			}
			return f.show(env.Out, x)
		},
	}
	f.register(cmd, env)
	f.callFlags(cmd)
	return cmd
}

// callFlags describe the call that is asked about.
func (f *explainFlags) callFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a request header, `'Name: value'`; may be repeated")
	cmd.Flags().StringVarP(&f.data, "data", "d", "", "the body: JSON, or @FILE")
	cmd.Flags().StringVar(&f.key, "key", "", "the allowlist entry to go by")
	cmd.Flags().StringVar(&f.idempotent, "upstream-idempotency-key", "", "the Idempotency-Key that the target would get")
}

func (f *explainFlags) request(env *Env, method, target string) (schemas.ExplainRequest, error) {
	req := schemas.ExplainRequest{Method: method, URL: target, AllowlistKey: f.key, IdempotencyKey: f.idempotent}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return req, usageError{fmt.Errorf("-H %q has no colon; write -H 'Name: value'", h)}
		}
		if req.Headers == nil {
			req.Headers = map[string]string{}
		}
		req.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if f.data == "" {
		return req, nil
	}
	var err error
	req.Body, err = document(env, "body", f.data)
	return req, err
}

// ask asks a running Weir.
func (f *explainFlags) ask(ctx context.Context, env *Env, req schemas.ExplainRequest) (schemas.Explanation, error) {
	c, err := f.client(env)
	if err != nil {
		return schemas.Explanation{}, err
	}
	return c.Explain(ctx, req)
}

// show prints an explanation, and ends the program with failure after a denial.
func (f *explainFlags) show(out io.Writer, x schemas.Explanation) error {
	if f.asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x); err != nil {
			return err
		}
	} else {
		fmt.Fprint(out, explained(x))
	}
	if !x.Allowed {
		return quietError{}
	}
	return nil
}

// explained is an explanation for a person.
func explained(x schemas.Explanation) string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-8s%s\n", label, text)
		}
	}
	if x.Allowed {
		fmt.Fprintf(&b, "allowed by %s\n", x.Entry)
		line("class", classText(x.Class))
	} else {
		fmt.Fprintf(&b, "denied: %s\n", x.Code)
		line("entry", x.Entry)
		line("check", x.Check)
		line("why", x.Reason)
		line("remedy", x.Remedy)
	}
	line("shadow", shadowText(x.Shadow))
	line("policy", x.Version)
	if len(x.Entries) > 0 {
		b.WriteString("entries\n")
	}
	width := 0
	for _, e := range x.Entries {
		width = max(width, len(e.Entry))
	}
	for _, e := range x.Entries {
		word := "fits"
		if !e.Fits {
			word = e.Check + ": " + e.Reason
		}
		if e.Mode == "shadow" {
			word = "(shadow) " + word
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, e.Entry, word)
	}
	return b.String()
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
