package corpus_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// missing says of each row what it needs and does not have; nothing: it runs.
type missing map[string]string

func (m missing) add(t *testing.T, id, what string) {
	t.Helper()
	_, twice := m[id]
	assert.False(t, twice, "%s is there twice", id)
	m[id] = what
}

// check holds the rows against a list of those that cannot run: neither may
// know of one that the other does not. The variable other names another file of
// rows, of which the list says nothing.
func (m missing) check(t *testing.T, list, other string) {
	t.Helper()
	if os.Getenv(other) != "" {
		return
	}
	data, err := os.ReadFile(list)
	require.NoError(t, err)
	listed := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if id, _, _ := strings.Cut(strings.TrimSpace(line), " "); id != "" && id != "#" {
			assert.False(t, listed[id], "%s is listed twice", id)
			listed[id] = true
		}
	}
	for id, what := range m {
		switch {
		case what != "" && !listed[id]:
			t.Errorf("%s does not run, for want of %s, and is not in %s", id, what, list)
		case what == "" && listed[id]:
			t.Errorf("%s is in %s and could run", id, list)
		}
	}
	for id := range listed {
		_, known := m[id]
		assert.True(t, known, "%s names %s, which is no row", list, id)
	}
}
