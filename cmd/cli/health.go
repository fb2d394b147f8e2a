package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

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
				return usageError{errors.New("URL and --server name two nodes; give one of them")}
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
	switch {
	case asJSON:
		if err := PrintDocument(env.Out, r); err != nil {
			return err
		}
	case !r.Healthy:
		fmt.Fprintf(env.Err, "weir: %s is not healthy: %s\n", r.URL, r.Error)
	case ready:
		fmt.Fprintln(env.Out, "ready")
	default:
		fmt.Fprintln(env.Out, "alive")
	}
	if !r.Healthy {
		return Printed()
	}
	return nil
}
