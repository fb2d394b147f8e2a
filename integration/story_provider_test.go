//go:build e2e

package integration_test

import (
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/weirtest/llm"
)

// storyKey is the credential of the provider in scripts.
const storyKey = "AGWCANARY-provider-key"

// newStoryProvider starts the provider that scripts' models are asked of.
func newStoryProvider(env *testscript.Env) error {
	p, err := llm.Start(llm.Config{Key: storyKey})
	if err != nil {
		return err
	}
	env.Defer(p.Close)
	env.Values["provider"] = p
	env.Setenv("PROVIDER", p.URL())
	env.Setenv("WEIR_SECRET_STORY_PROVIDER", storyKey)
	return nil
}

// cmdProvider prints the models that the provider was asked for, in order; with -key
// the credential that came with the last request.
func cmdProvider(ts *testscript.TestScript, _ bool, args []string) {
	p, ok := ts.Value("provider").(*llm.Server)
	if !ok {
		ts.Fatalf("there is no provider")
	}
	all := p.Ledger()
	if len(args) > 0 && args[0] == "-key" {
		fmt.Fprintln(ts.Stdout(), all[len(all)-1].Key())
		return
	}
	for _, r := range all {
		fmt.Fprintln(ts.Stdout(), r.Asked.Model)
	}
}
