package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/app/demo"
	"weir/cmd/cli"
	"weir/ingress/proxy"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/schemas"
)

// firstConfig is the configuration that `weir init` writes.
//
//go:embed init.yaml
var firstConfig []byte

func newInit(env *cli.Env) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first configuration",
		Long: `Write a first configuration with comments: tokens, an entry of the policy and a model. FILE is
weir.yaml unless you name another. A file that exists is not changed, except with --force.`,
		Example: `  weir init
  weir init /etc/weir.yaml`,
		Args: cli.AtMost(1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			file := append(args, config.DefaultFile)[0]
			if err := writeFirst(file, force); err != nil {
				return err
			}
			_, err := fmt.Fprintf(env.Out, "wrote %s; next: edit it, then run\n  weir config check %[1]s\n  weir serve --config %[1]s\n", file)
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return cmd
}

// writeFirst writes the first configuration to a file, which must not exist unless force is set.
func writeFirst(file string, force bool) error {
	how := os.O_EXCL
	if force {
		how = os.O_TRUNC
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usage(fmt.Errorf("%s exists and was not changed; name another file, or replace it with --force", file))
	}
	if err != nil {
		return cli.Usage(fmt.Errorf("the file cannot be written: %w; name one in a folder that exists and that this user may write to", err))
	}
	_, err = f.Write(firstConfig)
	return errors.Join(err, f.Close())
}

func newConfig(env *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "config",
		Short: "Check a configuration",
		Example: `  weir config check
  weir config check /etc/weir.yaml`,
	}, newConfigCheck(env))
}

// configProblem is a mistake or a warning, as `weir config check --json` prints it.
type configProblem struct { //nolint:errname // it is printed, and no error
	Severity string `json:"severity"` // error or warning
	*config.Problem
}

func newConfigCheck(env *cli.Env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and list all its mistakes",
		Long: `Check a configuration as weir serve reads it, with the WEIR_* variables, and list all mistakes and
warnings with their lines. The certificates and credentials that it names are read too. Nothing
is started or changed. FILE is $WEIR_CONFIG or ./weir.yaml unless you name another.

Exit 0 if there is no mistake, 1 if there are mistakes, and 2 if the file cannot be read.`,
		Example: `  weir config check
  weir config check /etc/weir.yaml
  weir config check weir.yaml --json | jq .problem`,
		Args: cli.AtMost(1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, problems, err := checkConfig(append(args, "")[0], env.Environ)
			if err != nil {
				return cli.Usage(err)
			}
			return printProblems(env, cfg, problems, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one document for each mistake or warning")
	return cmd
}

// checkConfig reads a configuration, and returns all mistakes or, without any, the warnings. It returns an error if it
// cannot read a file.
func checkConfig(path string, environ []string) (config.Config, []configProblem, error) {
	cfg, err := config.Load(path, environ, nil)
	all := []configProblem{}
	mistakes, ok := errors.AsType[config.Problems](err)
	switch {
	case ok:
		for _, p := range mistakes {
			all = append(all, configProblem{"error", p})
		}
		return cfg, all, nil
	case err != nil:
		return cfg, nil, err
	case cfg.Source() == "":
		return cfg, nil, fmt.Errorf("there is no %s here; name a file, or write one with `weir init`", config.DefaultFile)
	}
	_, err = cfg.Compile(nil)
	for _, err := range append(fileMistakes(cfg), err) {
		if err != nil {
			all = append(all, configProblem{"error", &config.Problem{Where: cfg.Source(), What: err.Error()}})
		}
	}
	for _, doubt := range cfg.Doubts() {
		all = append(all, configProblem{"warning", doubt})
	}
	for _, w := range append(gitWarnings(cfg), secretWarnings(cfg, secretStore(cfg, environ))...) {
		all = append(all, configProblem{"warning", &config.Problem{Where: cfg.Source(), What: w}})
	}
	return cfg, all, nil
}

// fileMistakes are files with which `weir serve` does not start.
func fileMistakes(cfg config.Config) []error {
	all := []error{externalLog(cfg).CheckFiles()}
	if p := cfg.Proxy; p.CACert != "" {
		_, err := proxy.LoadCA(p.CACert, p.CAKey, time.Now())
		all = append(all, err)
	}
	return all
}

// gitWarnings say why `weir serve` can have no repositories on its disk.
func gitWarnings(cfg config.Config) []string {
	if cfg.GitDir() == "" {
		return []string{noGitDir}
	}
	if _, err := exec.LookPath(cfg.Git.Program); err != nil {
		return []string{"git.program: " + noProgram}
	}
	return nil
}

func printProblems(env *cli.Env, cfg config.Config, all []configProblem, asJSON bool) error {
	mistakes := 0
	for _, p := range all {
		if p.Severity == "error" {
			mistakes++
		}
		if asJSON {
			if err := cli.PrintDocument(env.Out, p); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(env.Out, "%s: %v\n", p.Severity, p.Problem); err != nil {
			return err
		}
	}
	if mistakes > 0 {
		fmt.Fprintf(env.Err, "mistakes: %d\n", mistakes)
		return cli.Printed()
	}
	fmt.Fprintf(env.Err, "%s has no mistake; entries: %d, models: %d, agents: %d, warnings: %d\n",
		cfg.Source(), len(cfg.Policy.Allowlist), len(cfg.Models), len(cfg.Agents), len(all))
	return nil
}

func newRestore(env *cli.Env) *cobra.Command {
	file, replace, asJSON := "", false, false
	set := settingFlags{{"data", "data", "the directory to restore into (default ./weir-data)"}}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into the data directory of a Weir that does not run",
		Long: `Restore the backup in FILE into the data directory of the configuration. The file is
checked before anything is written. Start the gateway with the same configuration after.

Actions that were open when the backup was taken end as outcome_unknown: the node that was
backed up may have called their targets since. Actions that had ended are as they were.
Event ids and tokens stay valid. The configuration and admin.token are not in a backup.`,
		Example: `  weir restore weir-2026-11-26.backup --data /var/lib/weir
  weir restore weir-2026-11-26.backup --config /etc/weir.yaml --replace`,
		Args: cli.Exactly(1, "the file of a backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(file, env.Environ, set.given(cmd))
			if err != nil {
				return cli.Usage(err)
			}
			r := restorer{cfg: cfg, replace: replace, progress: env.Err}
			done, err := r.run(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			return env.Print(asJSON, done, "restored the backup of %s into %s: %d parts, %d open actions ended as outcome_unknown",
				done.Started.Format(time.RFC3339), cfg.Data, len(done.Parts), done.Unknown)
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&replace, "replace", false, "move the content of the data directory to replaced-TIME in it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	set.register(cmd)
	return cmd
}

func newProxy(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Set up the forward proxy of `weir serve`",
		Long: `Set up the forward proxy. weir serve --proxy-listen ADDRESS serves it. Clients use it with
HTTPS_PROXY, and a token as its password. A CONNECT needs an entry of the policy with
connect: tunnel, which passes bytes on as they are, or connect: inspect, which ends TLS so
that each request is an action. A tunnel is no action: it cannot be replayed.`,
		Example: `  weir proxy ca ./ca
  weir policy explain CONNECT api.example.com:443`,
	}
	return cli.Group(cmd, newProxyCA(env))
}

func newProxyCA(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "ca DIR",
		Short: "Make a CA for entries with connect: inspect",
		Long: `Write a new CA certificate and its key into DIR. Set proxy.ca_cert and proxy.ca_key to
them, and have the clients of the proxy trust the certificate. Keep the key away from
them: with it, anyone can pose as any host to these clients.`,
		Example: `  weir proxy ca ./ca
  weir serve --proxy-listen 127.0.0.1:8093 --config weir.yaml`,
		Args: cli.Exactly(1, "a directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			cert, key, err := proxy.MakeCA(args[0], time.Now())
			if err != nil {
				return fmt.Errorf("proxy ca: %w", err)
			}
			fmt.Fprintf(env.Out, "proxy:\n  ca_cert: %s\n  ca_key: %s\n", cert, key)
			return nil
		},
	}
}

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
