package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestALeaseIsWholeOrAnError: a runner must not work on a task of which only a part was read.
func TestALeaseIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		answer string
		id     string
		fails  bool
	}{
		"a task":        {http.StatusOK, `{"id":"t","token":"x"}`, "t", false},
		"none":          {http.StatusNoContent, "", "", false},
		"half a task":   {http.StatusOK, `{"id":"t","token":7}`, "", true},
		"a path":        {http.StatusOK, `{"id":"../t"}`, "", true},
		"no task":       {http.StatusOK, `[]`, "", true},
		"a wrong time":  {http.StatusOK, `{"id":"t","deadline":"soon"}`, "", true},
		"a broken body": {http.StatusOK, `{"id":"t"`, "", true},
		"a refusal":     {http.StatusForbidden, `{"id":"t"}`, "", true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.answer))
		}))
		task, err := (&leaser{api: clientOf(t, s.URL)}).Lease(t.Context())
		s.Close()
		assert.Equal(t, tt.fails, err != nil, "%s: %v", name, err)
		if assert.Equal(t, tt.id != "", task != nil, name); task != nil {
			assert.Equal(t, tt.id, task.ID, name)
		}
	}
}
