package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weir/cmd/app/demo"
	"weir/cmd/cli"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/schemas"
)

func newDemo(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Run a tour on this machine",
		Long: `Start a Weir in a temporary directory and a local upstream, and show: a plan with an
allowed, a denied and a retried decision; a repeat that does nothing; an answer checked
against a schema; a stream that is cut and resumed; the evidence as a NATS client
receives it. The tour checks every line that it prints. Exit 0 if all is as expected.`,
		Example: "  weir demo",
		Args:    cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Run(cmd.Context(), startDemo, cli.Unescaped(env.Out))
			if err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return nil
		},
	}
}

// startDemo starts an App on a temporary directory, with one entry in its policy
// and a port for NATS clients.
func startDemo(ctx context.Context, entry, prefix string) (demo.Weir, func() error, error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return demo.Weir{}, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	text := fmt.Sprintf(`listen: 127.0.0.1:0
data: %q
nats: {listen: "127.0.0.1:0"}
policy:
  allowlist:
    - {name: %q, url_prefix: %q, methods: [GET, POST], network: loopback}
`, dir, entry, prefix)
	cfg, err := config.Parse("demo", []byte(text), nil, nil)
	if err != nil {
		return demo.Weir{}, nil, errors.Join(err, remove())
	}
	a, err := New(ctx, Options{Config: cfg, Log: io.Discard})
	if err != nil {
		return demo.Weir{}, nil, errors.Join(err, remove())
	}
	stop := func() error { return errors.Join(a.Stop(context.WithoutCancel(ctx)), remove()) }
	if err := a.Start(ctx); err != nil {
		return demo.Weir{}, nil, errors.Join(err, stop())
	}
	w := demo.Weir{URL: a.URL(), Durability: a.broker.Durability()}
	w.Evidence = func(ctx context.Context, entry string, each func(schemas.Evidence)) error {
		o, err := embedded.Observe(ctx, embedded.CredentialsFile(a.cfg.Data))
		if err != nil {
			return err
		}
		defer o.Close()
		return o.Follow(ctx, "tour", schemas.EvidenceFilter("default", "", entry, "", false), each)
	}
	return w, stop, nil
}
