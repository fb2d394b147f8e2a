package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/client"
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
		return Usage(err)
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
		if err := env.Print(f.asJSON, report, "%s", strings.TrimSuffix(text, "\n")); err != nil {
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
		return cfg, usagef("--id-prefix is 1 to 100 of the characters A-Z a-z 0-9 . _ : -")
	}
	if f.first <= 0 || f.whole <= 0 {
		return cfg, usagef("--first-event and --timeout are durations above zero, such as 10s")
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
		return cfg, usagef("--inputs is not a JSON object")
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

// healthReport is what `weir health --json` prints.
type healthReport struct {
	URL     string `json:"url"`
	Healthy bool   `json:"healthy"`
	// Status is the answer's, 0 without one.
	Status int `json:"status"`
	// Readiness is what the node says of itself; absent where it was not asked.
	Readiness *schemas.Readiness `json:"readiness,omitempty"`
	// Error says why it is not healthy.
	Error string `json:"error,omitempty"`
}

func newHealth(env *Env) *cobra.Command {
	var ready, asJSON bool
	var server string
	timeout := 3 * time.Second
	cmd := &cobra.Command{
		Use:   "health [URL]",
		Short: "Check whether a Weir is alive, or ready",
		Long: `Check whether a Weir is alive: its process answers. With --ready, check whether it can
work too: it reaches its log and takes requests. The exit code is 0 if so and 1 if not,
and standard error says why. It sends no token. URL is the node's, in place of --server.`,
		Example: `  weir health
  weir health --ready http://127.0.0.1:8093
  weir health --ready --json | jq .readiness.checks`,
		Args: AtMost(1, "one URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.Flags().Changed("server") {
				return usagef("URL and --server name two nodes; give one of them")
			}
			c, err := client.New(append(args, server)[0], "")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return printHealth(env, health(ctx, c, ready), ready, asJSON)
		},
	}
	registerServer(cmd, env, &server)
	cmd.Flags().BoolVar(&ready, "ready", false, "check that it is ready, and not only alive")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "the time to wait for the answer")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, whether it is healthy or not")
	return cmd
}

func health(ctx context.Context, c *client.Client, ready bool) healthReport {
	report, path := healthReport{URL: c.BaseURL()}, "/healthz"
	if ready {
		path = "/readyz"
	}
	resp, err := c.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		report.Error = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			report.Error = "it did not answer in time; --timeout lets it have longer"
		}
		return report
	}
	defer resp.Body.Close()
	report.Status = resp.StatusCode
	report.Healthy = resp.StatusCode == http.StatusOK
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var facts schemas.Readiness
	switch {
	case err != nil:
		report.Healthy, report.Error = false, "its answer broke off"
	case !ready && report.Healthy:
	case ready && json.Unmarshal(body, &facts) == nil && facts.Durability != "":
		report.Readiness = &facts
		report.Error = strings.Join(facts.Reasons, ", ")
	default:
		report.Healthy, report.Error = false, "what answers is no Weir: it said "+resp.Status
	}
	return report
}

func printHealth(env *Env, r healthReport, ready, asJSON bool) error {
	code, text := ExitOK, "alive"
	if ready {
		text = "ready"
	}
	if !r.Healthy {
		code = ExitFailed
	}
	if code != ExitOK && !asJSON {
		fmt.Fprintf(env.Err, "weir: %s is not healthy: %s\n", r.URL, r.Error)
		return ended(code)
	}
	return cmp.Or(env.Print(asJSON, r, "%s", text), ended(code))
}
