package app

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/ingress/proxy"
)

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
