// Package app wires ingress, processors and egress together: roles, lifecycle, reload, and the commands that need
// them.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/ingress/executor"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/telemetry"
	"weir/schemas"
)

// Streams are the program's standard streams.
type Streams = cli.Streams

// Main runs the program and returns its exit code. It returns soon after ctx ends.
func Main(ctx context.Context, args, environ []string, s Streams) int {
	env := &cli.Env{Streams: s, Environ: environ}
	env.Policy = func(path string) (cli.Policy, error) { return localPolicy(path, environ) }
	return cli.Run(ctx, args, env, commands)
}

// commands are those that run a node or work on its log.
func commands(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{
		newRole(env, RoleAll), newRole(env, RoleIngress), newRole(env, RoleWorker), newRole(env, RoleEgress), newDemo(env), newNATS(env), newInit(env), newConfig(env), newRestore(env), newProxy(env),
	}
}

// localPolicy is the policy that a local configuration describes.
func localPolicy(path string, environ []string) (cli.Policy, error) {
	cfg, err := config.Load(path, environ, nil)
	if err != nil {
		return cli.Policy{}, cli.Usage(err)
	}
	p, err := cfg.Compile(nil)
	if err != nil {
		return cli.Policy{}, cli.Usage(err)
	}
	return cli.Policy{
		View: func() (schemas.PolicyView, error) { return p.View(time.Now(), nil, true), nil },
		Explain: func(req schemas.ExplainRequest, only []string) (schemas.Explanation, error) {
			call, err := executor.Asked(req)
			if err != nil {
				return schemas.Explanation{}, cli.Usage(err)
			}
			return explain(p, call, only), nil
		},
	}, nil
}

// explain evaluates a call of the executor under a policy. Only are the entries that the caller may
// use; empty: all.
func explain(p *policy.Policy, call schemas.HTTPCall, only []string) schemas.Explanation {
	return p.Explain(evaluate.Request(call, evaluate.Scope{Only: only}))
}

// roleText is the help text of a role's command.
type roleText struct{ short, long, example string }

func roleTexts() map[Role]roleText {
	const shared = `
The log is in an external NATS cluster: nats.url, or --nats. The process serves /healthz
and /readyz at once, and the rest as soon as it reaches the log. It answers 421 with the
name of the right role to requests for other roles.

It reads weir.yaml, then WEIR_* variables, then flags. All processes of one log need the
same layout (log.partitions), and the same policy, agents and models.`
	return map[Role]roleText{
		RoleAll: {
			"Serve everything: ingress, workers, egress and an embedded log",
			`Run the gateway. It reads weir.yaml, then WEIR_* variables, then flags.
After an interrupt or SIGTERM it finishes the calls in progress before it ends.
A change of the policy in the file takes effect at once; SIGHUP reloads it too.
A policy with a mistake is reported and changes nothing.`,
			`  weir serve
  weir serve --data /var/lib/weir --config /etc/weir.yaml
  weir serve --nats-listen 127.0.0.1:4222     # for NATS clients that follow the evidence`,
		},
		RoleIngress: {
			"Serve the role that receives and stores requests",
			"Receive requests, check and store them, and return their results. Any number of them\nmay run." + shared,
			`  weir ingress --nats nats://a:4222,nats://b:4222,nats://c:4222 --creds ingress.creds
  weir ingress --nats nats://127.0.0.1:4222 --listen 127.0.0.1:8092 --config /etc/weir.yaml`,
		},
		RoleWorker: {
			"Serve the role that executes actions",
			"Read actions from the log, decide on them and execute them. Any number of workers share\nthe work; if one dies, the others take over within seconds." + shared,
			`  weir worker --nats nats://a:4222,nats://b:4222,nats://c:4222 --creds worker.creds
  weir worker --nats nats://127.0.0.1:4222 --listen 127.0.0.1:8093 --log-level warn`,
		},
		RoleEgress: {
			"Serve the role for reads and event streams",
			"Serve reads: actions, their events as streams, evidence and lists. Any number of them\nmay run." + shared,
			`  weir egress --nats nats://a:4222,nats://b:4222,nats://c:4222 --creds egress.creds
  weir egress --nats nats://127.0.0.1:4222 --listen 127.0.0.1:8094`,
		},
	}
}

// newRole is the command of one role.
func newRole(env *cli.Env, r Role) *cobra.Command {
	path, newAdmin, acceptLoss := "", false, false
	set := settingFlags{
		{"listen", "listen", "the address to serve on (default 127.0.0.1:8092)"},
		{"auth", "auth.mode", "authentication: open (no token, this machine only) or tokens (default: open on a loopback address)"},
		{"nats", "nats.url", "URLs of an external NATS cluster, with commas between them, such as nats://host:4222"},
		{"creds", "nats.creds", "file with the credentials for it"},
		{"log-level", "telemetry.log_level", "debug, info, warn or error"},
		{"log-format", "telemetry.log_format", "json or text (default text on a terminal, else json)"},
	}
	text := roleTexts()[r]
	cmd := &cobra.Command{
		Use: r.String(), Short: text.short, Long: text.long, Example: text.example,
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := options(env, path, set.given(cmd))
			switch {
			case err != nil:
				return err
			case r != RoleAll && opts.Config.Embedded():
				return cli.Usage(errors.New("nats.url: is needed: this role works on a log that others share; name the NATS cluster with --nats, or run `weir serve`, which brings its own"))
			case newAdmin && opts.Config.Open():
				return cli.Usage(errors.New("--new-admin-token makes no sense here: an open node asks for no token; add --auth tokens"))
			case newAdmin && opts.Config.AdminTokenFile() == "":
				return cli.Usage(errors.New("--new-admin-token needs a file for the token: name it in auth.admin_token_file"))
			}
			opts.Role, opts.NewAdmin, opts.AcceptLoss = r, newAdmin, acceptLoss
			return serve(cmd.Context(), opts, env.Out)
		},
	}
	configFlag(cmd, &path)
	if r == RoleAll {
		set = append(set, settingFlags{
			{"data", "data", "the directory of the log (default ./weir-data)"},
			{"durability", "log.durability", "what an acknowledged action survives: disk (a power cut), process (kill -9) or, with --nats, replicated (the loss of a server)"},
			{"proxy-listen", "proxy.listen", "serve a forward proxy on this address, for clients with HTTPS_PROXY; its tunnels are no actions and cannot be replayed"},
			{"nats-listen", "nats.listen", "open the embedded NATS server on this address, for followers of the evidence and the agent API"},
		}...)
		cmd.Flags().BoolVar(&newAdmin, "new-admin-token", false, "write another admin token to auth.admin_token_file, for when every other is lost")
		cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "start once on a damaged log, without the records that are gone")
	}
	set.register(cmd)
	return cmd
}

// settingFlags are flags that set keys of the configuration.
type settingFlags []struct{ flag, key, help string }

func (s settingFlags) register(cmd *cobra.Command) {
	for _, f := range s {
		cmd.Flags().String(f.flag, "", f.help)
	}
}

// given are the keys that the command line has set, with their texts.
func (s settingFlags) given(cmd *cobra.Command) map[string]string {
	set := map[string]string{}
	for _, f := range s {
		if flag := cmd.Flags().Lookup(f.flag); flag.Changed {
			set[f.key] = flag.Value.String()
		}
	}
	return set
}

// configFlag names the file of the configuration.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
}

// options reads the configuration of a process that runs until it is stopped.
func options(env *cli.Env, path string, set map[string]string) (Options, error) {
	load := func() (config.Config, error) {
		cfg, err := config.Load(path, env.Environ, set)
		if cfg.Telemetry.LogFormat == "" && cli.Terminal(env.Err) {
			cfg.Telemetry.LogFormat = telemetry.FormatText
		}
		return cfg, err
	}
	cfg, err := load()
	if err != nil {
		return Options{}, cli.Usage(err)
	}
	file := cmp.Or(cfg.Source(), config.DefaultFile) // the default one may appear later
	return Options{Config: cfg, Environ: env.Environ, Log: env.Err, Load: load, File: file, Notices: env.Err}, nil
}

// errDisk ends the program when the disk refused a sync or a write.
var errDisk = errors.New("the disk refused to make the log durable: nothing more was acknowledged; check the disk before starting again")

// serve runs an App until ctx ends or the node must not go on.
func serve(ctx context.Context, opts Options, out io.Writer) error {
	for _, w := range opts.Config.Warnings() {
		opts.notice(w)
	}
	hangup := make(chan os.Signal, 1) // a signal during the start must not end it
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
			fmt.Fprintf(out, "weir: the agent API is on it too, at %s, with the credentials in %s\n", schemas.AgentAPISubject(schemas.Operator), embedded.AgentCredentialsFile(a.cfg.Data))
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

// promises is the log's part of the ready line.
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
			return fmt.Errorf("%w: %w", errDisk, a.server.Healthy())
		case <-hangup:
			_, _ = a.Reload(ctx) // it has reported the mistakes
		}
	}
}

// Role is which parts of Weir a process runs. Processes of any roles share one log; a role of its
// own needs an external one.
type Role string

// The roles.
const (
	RoleAll     Role = ""        // every room: `weir serve`
	RoleIngress Role = "ingress" // accepts writes, and answers clients that wait for their ends
	RoleWorker  Role = "worker"  // does the work
	RoleEgress  Role = "egress"  // serves reads and streams
)

// String is the role's name.
func (r Role) String() string {
	if r == RoleAll {
		return "serve"
	}
	return string(r)
}

// accepts reports whether the role accepts writes.
func (r Role) accepts() bool { return r == RoleAll || r == RoleIngress }

// works reports whether the role performs actions.
func (r Role) works() bool { return r == RoleAll || r == RoleWorker }

// shows reports whether the role serves reads.
func (r Role) shows() bool { return r == RoleAll || r == RoleEgress }

// answers reports whether the role follows the log for waiting clients.
func (r Role) answers() bool { return r.accepts() || r.shows() }
