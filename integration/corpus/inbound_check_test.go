//go:build e2e

package corpus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// clause is one part of a row's assertion, with its check and its value.
type clause struct {
	text  string
	check check
	value string
}

type check func(c *call, h answer, value string)

// elsewhere are the clauses that a script or the surface of the row checks in any case. Of every
// row of git: no child, no lock and no quarantine stays, and the repositories are the same unless
// the ref moved.
var elsewhere = []string{
	"no response byte contains evil.test", "GOAWAY or close", "CPU bounded", "other clients served", "per-peer cap", "write deadline",
	"worker not blocked", whatwg, "bounded buffer", "server closes", "resume loses nothing", "heartbeat",
	"no contact except the configured provider", "unread", "git child exits", "no zombie", "child reaped", "quarantine removed",
	"ref unchanged", "check-ref-format", "memory and disk bounded", "ref moved", errPacket,
}

// Clauses that other code asks for.
const (
	traceDropped = "request may also be served with a fresh trace id"
	errPacket    = "also acceptable: 200 with ERR pkt"
	whatwg       = "parsed by a WHATWG parser: one event, identical payload"
)

// sentences are the clauses without a value.
var sentences = map[string]check{
	"Content-Type: application/json": func(c *call, h answer, _ string) {
		assert.Equal(c.t, "application/json", h.header.Get("Content-Type"))
	},
	"X-Content-Type-Options: nosniff": func(c *call, h answer, _ string) {
		assert.Equal(c.t, "nosniff", h.header.Get("X-Content-Type-Options"))
	},
	"connection closed": func(c *call, h answer, _ string) { assert.True(c.t, h.closed) },
	"audit peer is the socket address": func(c *call, _ answer, _ string) {
		assert.NotContains(c.t, c.g.log.String(), "6.6.6.6")
	},
	"one upstream hit": func(c *call, _ answer, _ string) { assert.Equal(c.t, 1, c.g.upstream.count(c.ID)) },
	"equal ids": func(c *call, h answer, _ string) {
		if c.Repeat == 0 {
			assert.Equal(c.t, c.values["used"], h.header.Get("Weir-Action-Id"))
		}
	},
	"no duplicate terminal": func(c *call, h answer, _ string) { assert.Empty(c.t, h.body) },
	"canary absent from body, logs, metrics labels, traces": func(c *call, _ answer, _ string) {
		assert.NotContains(c.t, c.g.ask(c.t, c.g.admin, http.MethodGet, "/metrics", nil).body, "AGWCANARY")
	},
	"body has request_id, ok:false, outputs, warnings": func(c *call, h answer, _ string) {
		for _, part := range []string{`"request_id":"r1"`, `"ok":false`, `"outputs":{}`, `"warnings":[]`} {
			assert.Contains(c.t, h.body, part)
		}
	},
	traceDropped:         checkTrace,
	"one terminal event": checkOneEnd,
	"UI/CLI escapes":     checkNoMarkup,
	"not in logs": func(c *call, _ answer, _ string) {
		for _, part := range []string{"onerror", "javascript:", "\x1b", `\u001b`} {
			assert.NotContains(c.t, c.g.log.String(), part)
		}
	},
	"status unchanged": func(c *call, h answer, _ string) {
		var task schemas.AgentTask
		require.NoError(c.t, json.Unmarshal([]byte(h.body), &task))
		assert.Equal(c.t, schemas.TaskStatusRunning, task.Status)
		assert.Equal(c.t, schemas.TaskStatusRunning, c.view(c.g.tasks, c.task.ID).Status)
	},
	"framing preserved":    checkFraming,
	"exactly one terminal": checkFraming,
	"capability absent":    checkNoFilter,
	"unpack error":         checkUnpackError,
	"objects quarantined":  checkUnpackError,
	"no partial ref": func(c *call, _ answer, _ string) {
		assert.Equal(c.t, []string{string(schemas.GitIncomplete)}, c.results())
	},
}

// values are the clauses with a value, by what stands before it.
var values = map[string]check{
	"max_wall_s=": func(c *call, h answer, value string) {
		assert.Less(c.t, h.took, max(hang, seconds(value)), "the exchange hung")
	},
	"closed <=": func(c *call, h answer, value string) {
		assert.Less(c.t, h.took, max(hang, seconds(strings.Trim(value, " s"))), "the connection stayed open")
	},
	"max_rss_mb=": func(c *call, _ answer, value string) {
		limit, err := strconv.Atoi(value)
		require.NoError(c.t, err)
		assert.Less(c.t, taken()-c.began, int64(limit)<<20, "bytes taken from the heap, kept or not")
	},
	"detail=": func(c *call, h answer, value string) {
		a := h.agent(c.t)
		require.NotNil(c.t, a.Error, cut(h.body))
		require.NotNil(c.t, a.Error.Detail, cut(h.body))
		assert.Equal(c.t, value, *a.Error.Detail, cut(h.body))
	},
	"has=": func(c *call, h answer, value string) {
		if h.status == http.StatusOK {
			assert.Contains(c.t, h.body, c.fill(value))
		}
	},
	"says=":  func(c *call, h answer, value string) { assert.Contains(c.t, h.body, c.fill(value)) },
	"lacks=": func(c *call, h answer, value string) { assert.NotContains(c.t, h.body, c.fill(value)) },
	"view=": func(c *call, _ answer, value string) { // the task as its people see it
		view := c.g.ask(c.t, c.g.tasks, http.MethodGet, schemas.RouteTasks+"/"+c.own().ID, nil)
		assert.Contains(c.t, view.body, c.fill(value))
	},
}

func seconds(s string) time.Duration {
	n, _ := strconv.Atoi(s)
	return time.Duration(n) * time.Second
}

// number splits a limit from the clause that follows it after a comma.
var number = regexp.MustCompile(`^(max_wall_s=|max_rss_mb=)\d+`)

// parseClauses reads an assertion: clauses with "; " or, beside a limit, "," between them.
func parseClauses(text string) (all []clause, err error) {
	for rest := text; rest != ""; {
		part, after, _ := strings.Cut(rest, "; ")
		if limit := number.FindString(rest); limit != "" {
			part, after = limit, rest[len(limit):]
		} else if first, limits, ok := strings.Cut(part, ", max_"); ok {
			part, after = first, "max_"+limits
		}
		rest = strings.TrimLeft(after, ",; ")
		found := slices.Contains(elsewhere, part)
		if found {
			all = append(all, clause{text: part})
		}
		if check := sentences[part]; check != nil {
			all, found = append(all, clause{part, check, ""}), true
		}
		for word, check := range values {
			if value, ok := strings.CutPrefix(part, word); ok {
				all, found = append(all, clause{part, check, value}), true
			}
		}
		if !found {
			return nil, fmt.Errorf("assertion %q is not known", part)
		}
	}
	return all, nil
}

// asserts reports whether the row has a clause.
func (c *call) asserts(text string) bool {
	for _, cl := range c.clauses {
		if cl.text == text {
			return true
		}
	}
	return false
}

// checkTrace: if the call was served, nothing has the trace headers of the row.
func checkTrace(c *call, h answer, _ string) {
	if h.status >= http.StatusBadRequest {
		return
	}
	stored := c.g.must(c.t, c.value("task_token"), http.MethodGet, "/v1/actions/"+h.header.Get("Weir-Action-Id"), nil, http.StatusOK)
	for name, raw := range c.Headers {
		if strings.HasPrefix(strings.ToLower(name), "trace") {
			assert.NotContains(c.t, h.body+stored.body+c.g.log.String(), c.text(raw), name)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
