// Package app wires ingress, processors and egress together: roles, lifecycle, reload, and the commands that need
// them.
package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli"
	"weir/ingress/executor"
	"weir/internal/config"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
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
