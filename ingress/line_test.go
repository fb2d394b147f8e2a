package ingress_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"

	"weir/ingress"
	"weir/internal/problem"
)

// TestTheLineOfAClientThatIsGone is not that of a node that fails: any client can
// hang up.
func TestTheLineOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gone   bool
		status string
		level  string
	}{
		"it hung up":   {true, `"status":499`, `"level":"INFO"`},
		"it is there ": {false, `"status":503`, `"level":"ERROR"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			e := ingress.NewEngine(ingress.EngineConfig{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			e.GET("/read", func(c *gin.Context) { problem.Write(c.Writer, c.Request, context.Canceled) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.gone {
				cancel()
			}
			e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/read", http.NoBody))
			assert.Contains(t, log.String(), tt.status)
			assert.Contains(t, log.String(), tt.level)
		})
	}
}
