package casefile_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy/casefile"
)

// TestCasesFromEnvironment runs a file of cases that is not part of the tree:
// WEIR_OUTBOUND_CASES names it. With -v it counts by the ids' stems.
func TestCasesFromEnvironment(t *testing.T) {
	t.Parallel()
	path := os.Getenv("WEIR_OUTBOUND_CASES")
	if path == "" {
		t.Skip("WEIR_OUTBOUND_CASES names no file")
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()

	var out bytes.Buffer
	sum, err := casefile.Run(f, &out, casefile.Options{})
	require.NoError(t, err)
	type tally struct{ passed, total int }
	stems := map[string]*tally{}
	var order []string
	lines := bufio.NewScanner(&out)
	for lines.Scan() {
		var r casefile.Result
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		if r.ID == "" {
			continue
		}
		stem := r.ID
		if i := strings.LastIndexByte(stem, '-'); i > 0 {
			stem = stem[:i]
		}
		if stems[stem] == nil {
			stems[stem] = &tally{}
			order = append(order, stem)
		}
		stems[stem].total++
		if r.Pass {
			stems[stem].passed++
			continue
		}
		t.Errorf("%s: expected %s, decided %s %s", r.ID, r.Expected, r.Verdict, r.Code)
	}
	for _, stem := range order {
		t.Logf("%-8s %d/%d", stem, stems[stem].passed, stems[stem].total)
	}
	t.Logf("%+v", sum)
	require.Positive(t, sum.Passed)
	require.Zero(t, sum.Missed)
}
