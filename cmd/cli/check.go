package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli/check"
	"weir/schemas"
)

type checkFlags struct {
	clientFlags
	inputs, idPrefix string
	first, whole     time.Duration
}

func newCheck(env *Env) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check URL=TASK_TYPE...",
		Short: "Check agent services against the run contract",
		Long: `Check agent services, or a Weir, against the run contract: their health, a run of the task
type on each route, and the errors for an unknown task type and for a request without an
id. Each rule passes, fails, or is skipped because a rule that it builds on did not pass.
A warning fails nothing. The output names the rules that did not pass; --json prints
every rule.

The runs are real ones, each with a new request_id. With --id-prefix the ids are
PREFIX-1, PREFIX-2 and so on: a target that stores runs answers a second check with the
results of the first, so take another prefix for new runs. $WEIR_TOKEN is sent only to
the Weir at $WEIR_URL; --token-file names a token for every target. Exit 1 if a target
fails.`,
		Example: `  weir check http://localhost:8000=SUMMARY
  weir check http://a:8000=SUMMARY,http://b:8001/base=REVIEW --json
  weir check http://127.0.0.1:8092=ECHO --inputs '{"steps":3}'
  weir check http://127.0.0.1:8092=ECHO --id-prefix nightly-$(date +%F)`,
		Args: between(1, math.MaxInt, "weir check takes a target, http://host:port=TASK_TYPE; see `weir check --help`"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, env, args) },
	}
	cmd.Flags().StringVar(&f.inputs, "inputs", "", "the inputs of the runs: a JSON object, or @FILE (default {})")
	cmd.Flags().StringVar(&f.idPrefix, "id-prefix", "", "the beginning of the request ids of the runs (default new ids each time)")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the token to send to every target")
	cmd.Flags().DurationVar(&f.first, "first-event", 10*time.Second, "the time until a stream must begin")
	cmd.Flags().DurationVar(&f.whole, "timeout", 30*time.Second, "the time that an answer may take")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one document for each target")
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command, env *Env, args []string) error {
	targets, err := check.Targets(args)
	if err != nil {
		return usageError{err}
	}
	cfg, err := f.bounds(env)
	if err != nil {
		return err
	}
	f.server = env.serverURL()
	token, err := f.token(env)
	if err != nil {
		return err
	}
	passed := 0
	for n, target := range targets {
		if f.idPrefix != "" && len(targets) > 1 {
			cfg.IDPrefix = f.idPrefix + "-" + strconv.Itoa(n+1) // two targets may be one service
		}
		cfg.Token = ""
		if f.tokenFile != "" || sameOrigin(target.URL, f.server) {
			cfg.Token = token
		}
		report := check.Run(cmd.Context(), target, cfg)
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		if report.Passed {
			passed++
		}
		text := report.Text()
		if n > 0 {
			text = "\n" + text
		}
		c := &api{Streams: env.Streams, asJSON: f.asJSON}
		if err := c.print(report, nil, "%s", strings.TrimSuffix(text, "\n")); err != nil {
			return err
		}
	}
	if len(targets) > 1 && !f.asJSON {
		fmt.Fprintf(env.Out, "\n%d of %d targets passed\n", passed, len(targets))
	}
	if passed < len(targets) {
		return Printed()
	}
	return nil
}

func (f *checkFlags) bounds(env *Env) (check.Config, error) {
	cfg := check.Config{FirstEvent: f.first, Timeout: f.whole, IDPrefix: f.idPrefix}
	if f.idPrefix != "" && (len(f.idPrefix) > 100 || !schemas.ValidID(f.idPrefix)) {
		return cfg, usageError{errors.New("--id-prefix is 1 to 100 of the characters A-Z a-z 0-9 . _ : -")}
	}
	if f.first <= 0 || f.whole <= 0 {
		return cfg, usageError{errors.New("--first-event and --timeout are durations above zero, such as 10s")}
	}
	if f.inputs == "" {
		return cfg, nil
	}
	inputs, err := env.document("inputs", f.inputs)
	if err != nil {
		return cfg, err
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(inputs, &object) != nil || object == nil {
		return cfg, usageError{errors.New("--inputs is not a JSON object")}
	}
	cfg.Inputs = inputs
	return cfg, nil
}

// sameOrigin reports whether both URLs have one scheme, host and port: a token for
// one of them is no stranger's then.
func sameOrigin(a, b string) bool {
	u, err := url.Parse(a)
	if err != nil {
		return false
	}
	v, err := url.Parse(b)
	return err == nil && u.Scheme == v.Scheme && u.Host == v.Host
}
