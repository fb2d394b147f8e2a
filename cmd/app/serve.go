package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/schemas"
)

// serveFlags map a flag to the configuration's key.
func serveFlags() []struct{ flag, key, help string } {
	return []struct{ flag, key, help string }{
		{"listen", "listen", "the address to serve on (default 127.0.0.1:8092)"},
		{"auth", "auth.mode", "who may ask: open (everybody on this machine) or tokens (default: open on a loopback address)"},
		{"data", "data", "the directory of the log (default ./weir-data)"},
		{"durability", "log.durability", "what an acknowledged action survives: disk (a power cut) or process (kill -9)"},
		{"nats-listen", "nats.listen", "open the embedded NATS server on this address, for followers of the evidence and the agent API"},
		{"log-level", "telemetry.log_level", "debug, info, warn or error"},
		{"log-format", "telemetry.log_format", "json or text"},
	}
}

func newServe(env *environment) *cobra.Command {
	path, newAdmin, acceptLoss := "", false, false
	values := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run the gateway: ingress, workers, egress and an embedded log",
		Long: `Run the gateway. It reads weir.yaml, then WEIR_* variables, then flags.
Interrupt it (or send SIGTERM) and it finishes what is under way before it ends.
A change of the file's policy takes effect at once; SIGHUP has it read again too.
A policy with a mistake in it is told of and changes nothing.`,
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
			load := func() (config.Config, error) { return config.Load(path, env.environ, set) }
			cfg, err := load()
			if err != nil {
				return usageError{err}
			}
			if newAdmin && cfg.Open() {
				return usageError{errors.New("--new-admin-token makes no sense here: an open node asks for no token; add --auth tokens")}
			}
			for _, w := range cfg.Warnings() {
				fmt.Fprintln(env.Err, "weir: warning:", w)
			}
			file := cfg.Source()
			if file == "" { // it may come to be there
				file = config.DefaultFile
			}
			return serve(cmd.Context(), Options{
				Config: cfg, Environ: env.environ, Log: env.Err, Load: load, File: file, Notices: env.Err,
				NewAdmin: newAdmin, AcceptLoss: acceptLoss,
			}, env.Out)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	cmd.Flags().BoolVar(&newAdmin, "new-admin-token", false, "write another admin token to auth.admin_token_file, for when every other is lost")
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "start once on a damaged log, without the records that are gone")
	for _, f := range serveFlags() {
		values[f.flag] = cmd.Flags().String(f.flag, "", f.help)
	}
	return cmd
}

// errDisk ends the program when the disk refused a sync.
var errDisk = errors.New("the disk refused to make the log durable: nothing more was acknowledged; check the disk before starting again")

// serve runs an App until ctx ends or the node must not go on.
func serve(ctx context.Context, opts Options, out io.Writer) error {
	tuneHeap()
	hangup := make(chan os.Signal, 1) // one that comes while it starts must not end it
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	a, err := New(ctx, opts)
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
	}
	for _, w := range a.warnings(opts.Config) {
		a.notice(w)
	}
	if addr := a.NATS(); addr != "" {
		fmt.Fprintf(out, "weir: nats on nats://%s, credentials in %s\n", addr, embedded.CredentialsFile(a.cfg.Data))
		if a.servesRPC() {
			fmt.Fprintf(out, "weir: the agent API is on it too, at %s and so on, with the credentials in %s\n", schemas.AgentAPISubject(schemas.Operator), embedded.AgentCredentialsFile(a.cfg.Data))
		}
	}
	if a.firstAdmin {
		fmt.Fprintf(out, "weir: an admin token was made and is in %s\n", a.cfg.AdminTokenFile())
	}
	fmt.Fprintf(out, "weir: ready on %s (durability %s, data %s)\n", a.URL(), a.broker.Durability(), opts.Config.Data)
	return errors.Join(wait(ctx, a, hangup), a.Stop(context.WithoutCancel(ctx)))
}

// wait returns when the program is to end, and reloads whenever it is told to.
func wait(ctx context.Context, a *App, hangup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.Failed():
			return errDisk
		case <-hangup:
			_, _ = a.Reload(ctx) // it has told what is wrong
		}
	}
}
