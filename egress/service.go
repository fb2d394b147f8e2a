package egress

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// checkTimeout bounds all checks of one /readyz together.
const checkTimeout = 2 * time.Second

// Check is one thing that a node needs in order to be ready.
type Check struct {
	Name string // shown if it fails; the error is not
	Run  func(ctx context.Context) error
}

// ServiceConfig configures the reports of a node of any role about itself. What names no default is
// required.
type ServiceConfig struct {
	// Reader is as in Config.
	Reader func(r *http.Request, scope string) (Reader, error)
	// Ready are the facts that do not change: role, durability, replicas, partitions.
	Ready schemas.Readiness
	// PolicyVersion and AllowedHosts are read each time: policy reloads.
	PolicyVersion func() string
	AllowedHosts  func() []string
	Checks        []Check
	// Allow lets a request read the node's reports about itself: /metrics, with the scope
	// metrics:read, and a backup.
	Allow   func(r *http.Request, scope string) error
	Metrics http.Handler // /metrics
	OpenAPI []byte       // /openapi.json
	// Backup writes a backup of the node; an error before its first byte is the answer.
	Backup func(ctx context.Context, w io.Writer) error
}

// Service reports about a node of any role. Its routes name no tenant and show no record.
func Service(cfg ServiceConfig) Surface {
	e := service{cfg}
	return Surface{Name: "service", Routes: Routes(
		alive(),
		readiness(e.ready),
		Read("/sandbox", e.sandbox),
		Read("/metrics", func(c *gin.Context) error {
			if err := cfg.Allow(c.Request, schemas.ScopeMetricsRead); err != nil {
				return hidden(err)
			}
			cfg.Metrics.ServeHTTP(c.Writer, c.Request)
			return nil
		}),
		[]Route{{Method: http.MethodGet, Path: schemas.RouteBackup, Scopes: []string{schemas.ScopeAdmin}, Handle: e.backup}},
		Read("/openapi.json", func(c *gin.Context) error {
			stream.WriteBody(c.Writer, http.StatusOK, "application/json", cfg.OpenAPI)
			return nil
		}),
	)}
}

type service struct{ cfg ServiceConfig }

func (e service) sandbox(c *gin.Context) error {
	who, err := e.cfg.Reader(c.Request, "")
	if err != nil {
		return err
	}
	hosts := []string{}
	if len(who.Entries) == 0 { // entries alone leave no hosts
		hosts = append(hosts, e.cfg.AllowedHosts()...)
	}
	stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.Sandbox{AllowedHosts: hosts})
	return nil
}

// backup streams a backup to an admin of the operator's tenant.
func (e service) backup(c *gin.Context) error {
	if err := e.cfg.Allow(c.Request, schemas.ScopeAdmin); err != nil {
		return err
	}
	if err := stream.NewParams(c.Request.URL.Query()).Err; err != nil {
		return err
	}
	c.Writer.Header().Set("Content-Type", "application/x-tar")
	err := e.cfg.Backup(c.Request.Context(), c.Writer)
	if err != nil && c.Writer.Written() {
		panic(http.ErrAbortHandler) // the client sees that the archive broke off
	}
	return err
}

// hidden answers a sender without the right to a route as if the route did not exist, unless a
// later request would be served.
func hidden(err error) error {
	if problem.Of(err).Retryable {
		return err
	}
	return fault.New(schemas.NotFound, "there is nothing at this path")
}

// ready is 200 if every check passes, else 503 and the names of the failed ones. The causes are
// only logged: an error may contain an address.
func (e service) ready(w http.ResponseWriter, r *http.Request) (int, schemas.Readiness) {
	out := e.cfg.Ready
	out.Ready, out.Checks, out.PolicyVersion = true, map[string]string{}, e.cfg.PolicyVersion()
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	for _, c := range e.cfg.Checks {
		out.Checks[c.Name] = "ok"
		if c.Run(ctx) != nil {
			out.Checks[c.Name], out.Ready = "failed", false
			out.Reasons = append(out.Reasons, c.Name+" is not ready")
		}
	}
	if !out.Ready {
		w.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable, out
	}
	return http.StatusOK, out
}
