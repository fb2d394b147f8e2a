package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/internal/broker/embedded"
	"weir/internal/config"
)

// consumersTimeout bounds one request to the server.
const consumersTimeout = 10 * time.Second

func newNATSConsumers(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consumers",
		Short: "list or delete the consumers that observers made",
		Long: `List or delete the consumers that observers made on the evidence of an embedded server.
Observers may have 32 of them together. A durable one that is not used for 30 days is
deleted by the server.`,
		Example: `  weir nats consumers ls
  weir nats consumers rm billing-export --credentials ./weir-data/nats-credentials.json`,
		Args: cli.Exactly(0, "one of ls, rm"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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
		Use: "ls", Short: "list the consumers", Args: cli.Exactly(0, "no arguments"),
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
		Use: "rm NAME", Short: "delete a consumer; the evidence stays", Args: cli.Exactly(1, "the name of a consumer"),
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
	cmd.AddCommand(ls, rm)
	return cmd
}

func printConsumers(env *cli.Env, all []embedded.Consumer, asJSON bool) error {
	if asJSON {
		for _, c := range all {
			if err := json.NewEncoder(env.Out).Encode(c); err != nil {
				return err
			}
		}
		return nil
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
