package tasks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/strict"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

const fixtures = "../../schemas/tasks/testdata"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// outcome is what a fixture expects: what was read, or a refusal.
type outcome struct {
	ID      string       `json:"id,omitempty"`
	Timeout string       `json:"timeout,omitempty"`
	Read    any          `json:"read,omitempty"`
	Code    schemas.Code `json:"code,omitempty"`
	Message string       `json:"message,omitempty"`
}

// read takes a body the way the door of its route takes it. The name of a fixture
// begins with its route's word.
func read(tb testing.TB, route string, body []byte) outcome {
	tb.Helper()
	var out outcome
	var err error
	switch route {
	case "task":
		var req tasks.Request
		var timeout time.Duration
		if req, err = tasks.Read(body); err == nil {
			timeout, _, err = req.Timeout(noon, 168*time.Hour)
		}
		out.ID, out.Read = req.ID, req.Order
		if timeout > 0 {
			out.Timeout = timeout.String()
		}
	case "complete":
		out.Read, err = result(tasks.ReadComplete(body))
	case "fail":
		out.Read, err = result(tasks.ReadFail(body))
	case "inquiry":
		out.Read, err = result(tasks.ReadInquiry(body))
	case "answer":
		out.Read, err = result(tasks.ReadAnswer(body))
	case "lease":
		out.Read, err = result(tasks.ReadLease(body))
	case "repo":
		var order schemas.RepoOrder
		out.ID, order, err = tasks.ReadRepo(body)
		out.Read = order
	default:
		require.Fail(tb, "no such route", route)
	}
	if err == nil {
		return out
	}
	public, ok := errors.AsType[*fault.Error](err)
	require.True(tb, ok, "%v", err)
	return outcome{Code: public.Code, Message: public.Message}
}

func result[T any](v T, err error) (any, error) { return v, err }

func TestFixtures(t *testing.T) {
	t.Parallel()
	set := fixture.Set{Dir: fixtures, Valid: "order.json", Invalid: "error.json"}
	set.Run(t, func(t *testing.T, name string, body []byte) (any, bool) {
		t.Helper()
		require.NoError(t, strict.Check(body, strict.Limits{}))
		route, _, _ := strings.Cut(name, "_")
		got := read(t, route, body)
		return got, got.Code == ""
	})
}

func TestLongTexts(t *testing.T) {
	t.Parallel()
	for route, body := range map[string]string{
		"task":     `{"description":"X","repo":"app"}`,
		"complete": `{"description":"X"}`,
		"fail":     `{"description":"X"}`,
		"inquiry":  `{"inquiry":"X"}`,
		"answer":   `{"answer":"X"}`,
	} {
		limit := schemas.MaxTaskDescription
		switch route {
		case "complete", "fail":
			limit = schemas.MaxTaskReport
		case "inquiry", "answer":
			limit = schemas.MaxTaskInquiry
		}
		most := strings.Repeat("d", limit)
		require.Empty(t, read(t, route, []byte(strings.Replace(body, "X", most, 1))).Code, route)
		got := read(t, route, []byte(strings.Replace(body, "X", most+"d", 1)))
		require.Equal(t, schemas.ValidationError, got.Code, route)
		require.Contains(t, got.Message, fmt.Sprintf("at most %d bytes", limit))
	}
}

// FuzzRead holds what is stored for a body that is accepted against the body.
func FuzzRead(f *testing.F) {
	fixture.Seed(f, fixtures)
	routes := []string{"task", "complete", "fail", "inquiry", "answer", "lease", "repo"}
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		for _, route := range routes {
			got := read(t, route, body)
			if got.Code != "" {
				require.Contains(t, []schemas.Code{schemas.ValidationError, schemas.InvalidRequest}, got.Code)
				require.NotEmpty(t, got.Message)
				continue
			}
			require.True(t, got.ID == "" || schemas.ValidID(got.ID))
			data, err := ledger.Encode(got.Read)
			require.NoError(t, err)
			_, err = strict.Fingerprint(data)
			require.NoError(t, err)
			switch o := got.Read.(type) {
			case schemas.TaskOrder:
				require.True(t, schemas.ValidRepoName(o.Repo))
				require.True(t, o.Branch == "" || schemas.ValidBranch(o.Branch))
				require.True(t, schemas.ValidID(o.Pool))
				require.NotContains(t, o.Model, "\n")
				require.Empty(t, read(t, route, data).Code, "what is stored could be asked for again: %s", data)
			case schemas.RepoOrder:
				require.True(t, schemas.ValidRepoName(o.Name))
				require.Empty(t, read(t, route, data).Code, "%s", data)
			}
		}
	})
}
