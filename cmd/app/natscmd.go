package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/broker/natsconf"
	"weir/internal/config"
	"weir/schemas"
)

func newNATS(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nats",
		Short: "Set up a NATS cluster for Weir: servers, users, streams",
		Long: `Set up a NATS cluster for Weir in which each role has only the rights that it needs. init
writes the servers' configuration and all credentials, provision creates the streams,
queues and buckets on the servers, and tenant adds accounts for a tenant's own programs.
You can repeat each: it keeps what exists. consumers lists and deletes the consumers of
observers on an embedded server.`,
		Example: `  weir nats init ./nats --server n1=nats-1:4222 --server n2=nats-2:4222 --server n3=nats-3:4222
  nats-server -c ./nats/servers/n1/nats.conf        # and the others, each where it belongs
  weir nats provision --nats tls://nats-1:4222 --creds ./nats/credentials/provisioner.nk --ca ./nats/ca.pem
  weir nats tenant acme --dir ./nats`,
	}
	return cli.Group(cmd, newNATSInit(env), newNATSProvision(env), newNATSTenant(env), newNATSConsumers(env))
}

func newNATSInit(env *cli.Env) *cobra.Command {
	var p natsconf.Plan
	var servers []string
	var store string
	asJSON := false
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Write the servers' configuration, certificates and credentials",
		Long: `Write into DIR what a NATS cluster for Weir needs: for each server a folder with its
configuration and its certificate, a certificate authority, and the credentials of each
role. Copy servers/NAME to the server it names, and give each node of Weir the
credentials of its role (nats.creds) and ca.pem (nats.tls.ca). Keep ca.key and the
credentials of others away from them.

Run it again after an update of Weir, or with other --server: keys and certificates that
are still good for 90 days are kept, the rest is written anew. Then have the servers read
it: nats-server --signal reload.`,
		Example: `  weir nats init ./nats                       # three servers on this machine, to try it
  weir nats init ./nats --server n1=nats-1.example.com --server n2=nats-2.example.com --server n3=nats-3.example.com --at /etc/nats`,
		Args: cli.Exactly(1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("partitions") && p.Partitions == 0 { // to natsconf, 0 is not given
				return cli.Usage(errors.New("--partitions: is 0; use 1 to 64, or leave it out"))
			}
			for _, text := range servers {
				s, err := natsconf.ParseServer(text)
				if err != nil {
					return cli.Usage(fmt.Errorf("--server: %w", err))
				}
				p.Servers = append(p.Servers, s)
			}
			if store != "" {
				var size config.Size
				if err := size.UnmarshalText([]byte(store)); err != nil {
					return cli.Usage(fmt.Errorf("--store: %w", err))
				}
				p.Store = int64(size)
			}
			r, err := natsconf.Init(args[0], p, time.Now())
			if err != nil {
				return planError("nats init", err)
			}
			if asJSON {
				return cli.PrintDocument(env.Out, r)
			}
			return printInit(env, r)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&servers, "server", nil, "a server, NAME=HOST[:PORT[:ROUTE PORT]]; repeat it (default three on this machine)")
	flags.IntVar(&p.Partitions, "partitions", 0, "the log's partitions, as log.partitions has them (default 8)")
	flags.StringVar(&store, "store", "", "how much each server may store (default 64GiB)")
	flags.StringVar(&p.At, "at", "", "the folder that each server finds its files in (default where they are written)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// planError is an error of package natsconf: a mistake in what the command got, unless the file system reports it.
func planError(command string, err error) error {
	err = fmt.Errorf("%s: %w", command, err)
	if _, system := errors.AsType[*fs.PathError](err); system {
		return err
	}
	return cli.Usage(err)
}

func printInit(env *cli.Env, r natsconf.Report) error {
	for _, file := range r.Made {
		fmt.Fprintln(env.Out, "made", file)
	}
	if len(r.Made) == 0 {
		fmt.Fprintln(env.Out, "keys and certificates are as they were")
	}
	urls := make([]string, 0, len(r.Servers))
	for _, s := range r.Servers {
		urls = append(urls, s.URL())
		fmt.Fprintf(env.Out, "server %s: nats-server -c %s/nats.conf\n", s.Name, natsconf.ServerDir(r.Dir, s.Name))
	}
	if len(r.Servers) == 1 {
		fmt.Fprintln(env.Out, "one server keeps no copies: set log.replicas to 1 on every node, and for provision")
	}
	_, err := fmt.Fprintf(env.Out, "then: weir nats provision --nats %s --creds %s --ca %s\n", strings.Join(urls, ","), natsconf.CredentialsFile(r.Dir, "provisioner"), natsconf.CAFile(r.Dir))
	return err
}

func newNATSTenant(env *cli.Env) *cobra.Command {
	dir, remove, asJSON := "", false, false
	cmd := &cobra.Command{
		Use:   "tenant NAME --dir DIR",
		Short: "Add or remove the accounts of a tenant's own NATS programs",
		Long: `Add to the directory of weir nats init two accounts for a tenant's own programs, and
print where their credentials are: an observer, which sees the tenant's evidence and the
states of its tasks, and an agent, which asks the agent API. Neither sees anything of
another tenant. Have the servers read it (nats-server --signal reload), and make the
observer's place in the evidence with weir nats provision --tenant NAME.

With --remove the accounts end and their credentials are deleted. Who is connected by
them is cut off when the servers read it. The evidence stays.`,
		Example: `  weir nats tenant acme --dir ./nats
  weir nats tenant acme --dir ./nats --remove
  nats --nkey ./nats/credentials/tenants/acme.observer.nk consumer next WEIR_EVIDENCE observer_acme`,
		Args: cli.Exactly(1, "the name of a tenant"),
		RunE: func(_ *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usage(errors.New("name the directory of `weir nats init` with --dir"))
			}
			name := args[0]
			if remove {
				return removeTenant(env, dir, name, asJSON)
			}
			r, err := natsconf.Tenant(dir, name, time.Now())
			if err != nil {
				return planError("nats tenant", err)
			}
			made := natsTenant{Tenant: name, Observer: natsconf.ObserverFile(r.Dir, name), Agent: natsconf.AgentFile(r.Dir, name)}
			return env.Print(asJSON, made, "observer: %s\nagent: %s\nthen have the servers read accounts.conf again, and run: weir nats provision --tenant %s …", made.Observer, made.Agent, name)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the directory of weir nats init")
	cmd.Flags().BoolVar(&remove, "remove", false, "end the tenant's accounts")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func removeTenant(env *cli.Env, dir, name string, asJSON bool) error {
	r, err := natsconf.Remove(dir, name, time.Now())
	if err != nil {
		return fmt.Errorf("nats tenant: %w", err)
	}
	if asJSON {
		return cli.PrintDocument(env.Out, struct {
			Tenant  string   `json:"tenant"`
			Removed []string `json:"removed"`
		}{name, r.Removed})
	}
	for _, file := range r.Removed {
		fmt.Fprintln(env.Out, "removed", file)
	}
	_, err = fmt.Fprintln(env.Out, "then have the servers read accounts.conf again (nats-server --signal reload): until then the accounts work as before")
	return err
}

// natsTenant prints the place of the credentials of a tenant's programs.
type natsTenant struct {
	Tenant   string `json:"tenant"`
	Observer string `json:"observer"`
	Agent    string `json:"agent"`
}

// provisionTimeout bounds the whole of it: some hundred things are made, one after the other.
const provisionTimeout = 5 * time.Minute

func newNATSProvision(env *cli.Env) *cobra.Command {
	path, asJSON := "", false
	var tenants []string
	set := settingFlags{
		{"nats", "nats.url", "the cluster, with commas between URLs (default nats.url)"},
		{"creds", "nats.creds", "the provisioner's credentials (default nats.creds)"},
		{"ca", "nats.tls.ca", "the authority of the servers' certificates (default nats.tls.ca)"},
	}
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Create the streams, queues and buckets on a NATS cluster",
		Long: `Make on a NATS cluster what the log needs, or bring it up to date with the
configuration (log.partitions, log.history and so on), and report for each whether
it was made, changed or kept. Nothing is deleted, and it may be repeated. Nodes whose NATS user
may not do this refuse to start until it was done.`,
		Example: `  weir nats provision --nats tls://nats-1:4222 --creds ./nats/credentials/provisioner.nk --ca ./nats/ca.pem
  weir nats provision --config weir.yaml --tenant acme     # and the place of acme's observer in the evidence`,
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := set.given(cmd)
			maps.DeleteFunc(given, func(_, text string) bool { return text == "" })
			cfg, err := config.Load(path, env.Environ, given)
			if err != nil {
				return cli.Usage(err)
			}
			if cfg.Embedded() {
				return cli.Usage(errors.New("name the NATS cluster with --nats or nats.url: an embedded log is made by `weir serve`"))
			}
			for _, t := range tenants {
				if !schemas.ValidID(t) {
					return cli.Usage(fmt.Errorf("--tenant: %q is not the name of a tenant", t))
				}
			}
			if err := externalLog(cfg).CheckFiles(); err != nil {
				return cli.Usage(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), provisionTimeout)
			defer cancel()
			did, err := broker.Provision(ctx, externalLog(cfg), tenants)
			if err != nil {
				err = fmt.Errorf("nats provision: %w", err)
			}
			return errors.Join(printProvision(env, did, asJSON), err)
		},
	}
	configFlag(cmd, &path)
	set.register(cmd)
	cmd.Flags().StringArrayVar(&tenants, "tenant", nil, "a tenant whose observer gets a place in the evidence; repeat it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each")
	return cmd
}

func printProvision(env *cli.Env, did []broker.Resource, asJSON bool) error {
	if asJSON {
		return printEach(env, did)
	}
	kept := 0
	for _, t := range did {
		switch {
		case t.Did == broker.ResourceKept:
			kept++
		case t.Was != "":
			fmt.Fprintf(env.Out, "%s %s: it %s\n", t.Did, t.Name, t.Was)
		default:
			fmt.Fprintf(env.Out, "%s %s\n", t.Did, t.Name)
		}
	}
	if kept > 0 {
		fmt.Fprintf(env.Out, "kept %d as they are\n", kept)
	}
	return nil
}

// printEach prints documents as JSON, one a line.
func printEach[T any](env *cli.Env, all []T) error {
	for _, doc := range all {
		if err := cli.PrintDocument(env.Out, doc); err != nil {
			return err
		}
	}
	return nil
}

// consumersTimeout bounds one request to the server.
const consumersTimeout = 10 * time.Second

func newNATSConsumers(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consumers",
		Short: "List or delete the consumers of observers",
		Long: `List or delete the consumers that observers made on the evidence of an embedded server.
Observers may have 32 of them together. A durable one that is not used for 30 days is
deleted by the server.`,
		Example: `  weir nats consumers ls
  weir nats consumers rm billing-export --credentials ./weir-data/nats-credentials.json`,
	}
	path, file, asJSON := "", "", false
	observed := func(ctx context.Context, do func(context.Context, *embedded.Observer) error) error {
		if file == "" {
			cfg, err := config.Load(path, env.Environ, nil)
			if err != nil {
				return cli.Usage(err)
			}
			if !cfg.Embedded() {
				return cli.Usage(errors.New("on a NATS cluster each tenant's observer has one consumer: see weir nats tenant"))
			}
			file = embedded.CredentialsFile(cfg.Data)
		}
		ctx, cancel := context.WithTimeout(ctx, consumersTimeout)
		defer cancel()
		o, err := embedded.Observe(ctx, file)
		if err != nil {
			return fmt.Errorf("nats consumers: %w; is Weir running with --nats-listen?", err)
		}
		defer o.Close()
		return do(ctx, o)
	}
	ls := &cobra.Command{
		Use: "ls", Short: "List consumers", Example: "  weir nats consumers ls --json", Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return observed(cmd.Context(), func(ctx context.Context, o *embedded.Observer) error {
				all, err := o.Consumers(ctx)
				if err != nil {
					return fmt.Errorf("nats consumers: %w", err)
				}
				return printConsumers(env, all, asJSON)
			})
		},
	}
	ls.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each")
	rm := &cobra.Command{
		Use: "rm NAME", Short: "Delete a consumer; the evidence stays", Example: "  weir nats consumers rm billing-export", Args: cli.Exactly(1, "the name of a consumer"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return observed(cmd.Context(), func(ctx context.Context, o *embedded.Observer) error {
				if err := o.Delete(ctx, args[0]); err != nil {
					return fmt.Errorf("nats consumers: %s: %w", args[0], err)
				}
				_, err := fmt.Fprintf(env.Out, "deleted %s\n", args[0])
				return err
			})
		},
	}
	cmd.PersistentFlags().StringVar(&path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	cmd.PersistentFlags().StringVar(&file, "credentials", "", "the observer's credentials (default nats-credentials.json in the data directory)")
	return cli.Group(cmd, ls, rm)
}

func printConsumers(env *cli.Env, all []embedded.Consumer, asJSON bool) error {
	if asJSON {
		return printEach(env, all)
	}
	table := tabwriter.NewWriter(env.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tDURABLE\tCREATED\tLAST RECORD\tPENDING\tUNACKED\tFILTERS")
	for _, c := range all {
		last := "-"
		if c.Delivered != nil {
			last = c.Delivered.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%t\t%s\t%s\t%d\t%d\t%s\n", c.Name, c.Durable, c.Created.Format(time.RFC3339), last, c.Pending, c.Unacked, strings.Join(c.Filters, " "))
	}
	return table.Flush()
}
