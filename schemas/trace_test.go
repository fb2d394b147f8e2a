package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

func TestValidTraceParent(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	assert.True(t, schemas.ValidTraceParent(good))
	for _, bad := range []string{
		"", good[1:], good + "0", strings.ToUpper(good), "01" + good[2:], strings.Replace(good, "-b", "_b", 1),
		strings.Replace(good, "a", "#", 1), strings.Replace(good, "a", "-", 1), strings.Repeat("-", len(good)),
	} {
		assert.False(t, schemas.ValidTraceParent(bad), bad)
	}
}
