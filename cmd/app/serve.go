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

	"weir/cmd/cli"
	"weir/internal/broker/embedded"
	"weir/schemas"
)

// serveFlags map a flag to the configuration's key.
func serveFlags() []settingFlag {
	return append(sharedFlags(),
		settingFlag{"data", "data", "the directory of the log (default ./weir-data)"},
		settingFlag{"durability", "log.durability", "what an acknowledged action survives: disk (a power cut), process (kill -9) or, with --nats, replicated (the loss of a server)"},
		settingFlag{"proxy-listen", "proxy.listen", "serve a forward proxy on this address, for clients with HTTPS_PROXY; its tunnels are no actions and cannot be replayed"},
		settingFlag{"nats-listen", "nats.listen", "open the embedded NATS server on this address, for followers of the evidence and the agent API"},
	)
}

func newServe(env *cli.Env) *cobra.Command {
	path, newAdmin, acceptLoss := "", false, false
	values := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve everything: ingress, workers, egress and an embedded log",
		Long: `Run the gateway. It reads weir.yaml, then WEIR_* variables, then flags.
After an interrupt or SIGTERM it finishes the calls in progress before it ends.
A change of the policy in the file takes effect at once; SIGHUP reloads it too.
A policy with a mistake is reported and changes nothing.`,
		Example: `  weir serve
  weir serve --data /var/lib/weir --config /etc/weir.yaml
  weir serve --nats-listen 127.0.0.1:4222     # for NATS clients that follow the evidence`,
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := options(env, path, chosen(cmd, serveFlags(), values))
			if err != nil {
				return err
			}
			if newAdmin && opts.Config.Open() {
				return cli.Usage(errors.New("--new-admin-token makes no sense here: an open node asks for no token; add --auth tokens"))
			}
			if newAdmin && opts.Config.AdminTokenFile() == "" {
				return cli.Usage(errors.New("--new-admin-token needs a file for the token: name it in auth.admin_token_file"))
			}
			opts.NewAdmin, opts.AcceptLoss = newAdmin, acceptLoss
			return serve(cmd.Context(), opts, env.Out)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	cmd.Flags().BoolVar(&newAdmin, "new-admin-token", false, "write another admin token to auth.admin_token_file, for when every other is lost")
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "start once on a damaged log, without the records that are gone")
	registerFlags(cmd, serveFlags(), values)
	return cmd
}

// errDisk ends the program when the disk refused a sync.
var errDisk = errors.New("the disk refused to make the log durable: nothing more was acknowledged; check the disk before starting again")

// serve runs an App until ctx ends or the node must not go on.
func serve(ctx context.Context, opts Options, out io.Writer) error {
	for _, w := range opts.Config.Warnings() {
		fmt.Fprintln(opts.Notices, "weir: warning:", w)
	}
	hangup := make(chan os.Signal, 1) // one that comes while it starts must not end it
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	a, err := New(ctx, opts)
	if err != nil {
		return err
	}
	if !opts.Config.Embedded() {
		fmt.Fprintf(out, "weir: listening on %s, opening the log\n", a.URL())
	}
	if err := a.Start(ctx); err != nil {
		if ctx.Err() != nil { // stopped before it had its log
			err = nil
		}
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
	if addr := a.ProxyURL(); addr != "" {
		fmt.Fprintf(out, "weir: proxy on %s\n", addr)
	}
	fmt.Fprintf(out, "weir: ready on %s (%s)\n", a.URL(), a.promises())
	return errors.Join(wait(ctx, a, hangup), a.Stop(context.WithoutCancel(ctx)))
}

// promises is what the ready line says of the log.
func (a *App) promises() string {
	if a.cfg.Embedded() {
		return fmt.Sprintf("durability %s, data %s", a.broker.Durability(), a.cfg.Data)
	}
	return fmt.Sprintf("%s, durability %s, replicas %d", a.role, a.broker.Durability(), a.copies())
}

// wait returns when the program must end, and reloads on each hangup signal.
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
