package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weir/internal/broker/embedded"
	"weir/internal/config"
)

// serveFlags map a flag to the configuration's key.
func serveFlags() []struct{ flag, key, help string } {
	return []struct{ flag, key, help string }{
		{"listen", "listen", "the address to serve on (default 127.0.0.1:8092)"},
		{"data", "data", "the directory of the log (default ./weir-data)"},
		{"durability", "log.durability", "what an acknowledged action survives: disk (a power cut) or process (kill -9)"},
		{"nats-listen", "nats.listen", "open the embedded NATS server on this address, for followers of the evidence"},
		{"log-level", "telemetry.log_level", "debug, info, warn or error"},
		{"log-format", "telemetry.log_format", "json or text"},
	}
}

func newServe(env *environment) *cobra.Command {
	path := ""
	values := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run the gateway: ingress, workers, egress and an embedded log",
		Long: `Run the gateway. It reads weir.yaml, then WEIR_* variables, then flags.
Interrupt it (or send SIGTERM) and it finishes what is under way before it ends.`,
		Example: `  weir serve
  weir serve --data /var/lib/weir --config /etc/weir.yaml
  weir serve --nats-listen 127.0.0.1:4222     # for NATS clients that follow the evidence`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set := map[string]string{}
			for _, f := range serveFlags() {
				if cmd.Flags().Changed(f.flag) {
					set[f.key] = *values[f.flag]
				}
			}
			cfg, err := config.Load(path, env.environ, set)
			if err != nil {
				return usageError{err}
			}
			for _, w := range cfg.Warnings() {
				fmt.Fprintln(env.Err, "weir: warning:", w)
			}
			return serve(cmd.Context(), Options{Config: cfg, Environ: env.environ, Log: env.Err}, env.Out)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	for _, f := range serveFlags() {
		values[f.flag] = cmd.Flags().String(f.flag, "", f.help)
	}
	return cmd
}

// errDisk ends the program when the disk refused a sync.
var errDisk = errors.New("the disk refused to make the log durable: nothing more was acknowledged; check the disk before starting again")

// serve runs an App until ctx ends or the node must not go on.
func serve(ctx context.Context, opts Options, out io.Writer) error {
	a, err := New(ctx, opts)
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
	}
	for _, w := range a.warnings() {
		fmt.Fprintln(opts.Log, "weir: warning:", w)
	}
	if addr := a.NATS(); addr != "" {
		fmt.Fprintf(out, "weir: nats on nats://%s, credentials in %s\n", addr, embedded.CredentialsFile(a.cfg.Data))
	}
	fmt.Fprintf(out, "weir: ready on %s (durability %s, data %s)\n", a.URL(), a.broker.Durability(), opts.Config.Data)
	select {
	case <-ctx.Done():
	case <-a.Failed():
		err = errDisk
	}
	return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
}
