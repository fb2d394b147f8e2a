package app

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/internal/config"
)

// Role is which rooms a process has. Processes of any roles share one log; a role of its
// own needs an external one.
type Role string

// The roles.
const (
	RoleAll     Role = ""        // every room: `weir serve`
	RoleIngress Role = "ingress" // takes writes, and answers who waits for their ends
	RoleWorker  Role = "worker"  // does the work
	RoleEgress  Role = "egress"  // serves reads and streams
)

// String is the role's word.
func (r Role) String() string {
	if r == RoleAll {
		return "serve"
	}
	return string(r)
}

// takes reports whether the role takes writes.
func (r Role) takes() bool { return r == RoleAll || r == RoleIngress }

// works reports whether the role performs actions.
func (r Role) works() bool { return r == RoleAll || r == RoleWorker }

// shows reports whether the role serves reads.
func (r Role) shows() bool { return r == RoleAll || r == RoleEgress }

// answers reports whether the role follows the log for those who wait on it.
func (r Role) answers() bool { return r.takes() || r.shows() }

// roleText is what a role's command says of itself.
type roleText struct{ short, long, example string }

func roleTexts() map[Role]roleText {
	const shared = `
The log is in an external NATS cluster: nats.url, or --nats. The process serves /healthz
and /readyz at once, and the rest as soon as it reaches the log. It answers 421 with the
name of the right role to requests for other roles.

It reads weir.yaml, then WEIR_* variables, then flags. All processes of one log need the
same layout (log.partitions), and the same policy, agents and models.`
	return map[Role]roleText{
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
	var path string
	values := map[string]*string{}
	text := roleTexts()[r]
	cmd := &cobra.Command{
		Use: string(r), Short: text.short, Long: text.long, Example: text.example,
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := options(env, path, chosen(cmd, sharedFlags(), values))
			if err != nil {
				return err
			}
			opts.Role = r
			if opts.Config.Embedded() {
				return cli.Usage(errors.New("nats.url: is needed: this role works on a log that others share; name the NATS cluster with --nats, or run `weir serve`, which brings its own"))
			}
			return serve(cmd.Context(), opts, env.Out)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	registerFlags(cmd, sharedFlags(), values)
	return cmd
}

// options reads the configuration of a process that runs until it is stopped.
func options(env *cli.Env, path string, set map[string]string) (Options, error) {
	load := func() (config.Config, error) { return config.Load(path, env.Environ, set) }
	cfg, err := load()
	if err != nil {
		return Options{}, cli.Usage(err)
	}
	file := cfg.Source()
	if file == "" { // it may appear later
		file = config.DefaultFile
	}
	return Options{Config: cfg, Environ: env.Environ, Log: env.Err, Load: load, File: file, Notices: env.Err}, nil
}

// settingFlag is a flag that sets a key of the configuration.
type settingFlag struct{ flag, key, help string }

// sharedFlags map a flag of every role to the configuration's key.
func sharedFlags() []settingFlag {
	return []settingFlag{
		{"listen", "listen", "the address to serve on (default 127.0.0.1:8092)"},
		{"auth", "auth.mode", "authentication: open (no token, this machine only) or tokens (default: open on a loopback address)"},
		{"nats", "nats.url", "URLs of an external NATS cluster, with commas between them, such as nats://host:4222"},
		{"creds", "nats.creds", "file with the credentials for it"},
		{"log-level", "telemetry.log_level", "debug, info, warn or error"},
		{"log-format", "telemetry.log_format", "json or text"},
	}
}

func registerFlags(cmd *cobra.Command, flags []settingFlag, values map[string]*string) {
	for _, f := range flags {
		values[f.flag] = cmd.Flags().String(f.flag, "", f.help)
	}
}

// chosen are the keys that the command line has set.
func chosen(cmd *cobra.Command, flags []settingFlag, values map[string]*string) map[string]string {
	set := map[string]string{}
	for _, f := range flags {
		if cmd.Flags().Changed(f.flag) {
			set[f.key] = *values[f.flag]
		}
	}
	return set
}
