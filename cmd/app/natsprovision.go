package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/internal/broker"
	"weir/internal/config"
	"weir/schemas"
)

// provisionTimeout bounds the whole of it: some hundred things are made, one after the other.
const provisionTimeout = 5 * time.Minute

func newNATSProvision(env *cli.Env) *cobra.Command {
	path, asJSON := "", false
	var tenants []string
	values := map[string]*string{"nats.url": new(string), "nats.creds": new(string), "nats.tls.ca": new(string)}
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "make the streams, queues and buckets on a NATS cluster",
		Long: `Make on a NATS cluster what the log needs, or bring it up to date with the
configuration (log.partitions, log.history and so on), and say what became of each:
made, changed or kept. Nothing is deleted, and it may be repeated. Nodes whose NATS user
may not do this refuse to start until it was done.`,
		Example: `  weir nats provision --nats tls://nats-1:4222 --creds ./nats/credentials/provisioner.nk --ca ./nats/ca.pem
  weir nats provision --config weir.yaml --tenant acme     # and the place of acme's observer in the evidence`,
		Args: cli.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set := map[string]string{}
			for key, value := range values {
				if *value != "" {
					set[key] = *value
				}
			}
			cfg, err := config.Load(path, env.Environ, set)
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
			ctx, cancel := context.WithTimeout(cmd.Context(), provisionTimeout)
			defer cancel()
			did, err := broker.Provision(ctx, externalLog(cfg), tenants)
			if err != nil {
				err = fmt.Errorf("nats provision: %w", err)
			}
			return errors.Join(tellProvision(env, did, asJSON), err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "config", "", "the configuration file (default ./weir.yaml if there is one)")
	flags.StringVar(values["nats.url"], "nats", "", "the cluster, with commas between URLs (default nats.url)")
	flags.StringVar(values["nats.creds"], "creds", "", "the provisioner's credentials (default nats.creds)")
	flags.StringVar(values["nats.tls.ca"], "ca", "", "the authority of the servers' certificates (default nats.tls.ca)")
	flags.StringArrayVar(&tenants, "tenant", nil, "a tenant whose observer gets a place in the evidence; repeat it")
	flags.BoolVar(&asJSON, "json", false, "print a line of JSON for each")
	return cmd
}

func tellProvision(env *cli.Env, did []broker.Thing, asJSON bool) error {
	kept := 0
	for _, t := range did {
		switch {
		case asJSON:
			if err := json.NewEncoder(env.Out).Encode(t); err != nil {
				return err
			}
		case t.Did == broker.ThingKept:
			kept++
		case t.Was != "":
			fmt.Fprintf(env.Out, "%s %s: it %s\n", t.Did, t.Name, t.Was)
		default:
			fmt.Fprintf(env.Out, "%s %s\n", t.Did, t.Name)
		}
	}
	if !asJSON && kept > 0 {
		fmt.Fprintf(env.Out, "kept %d as they are\n", kept)
	}
	return nil
}
