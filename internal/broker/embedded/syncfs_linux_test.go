package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileSystemCanBeSynced(t *testing.T) {
	t.Parallel()
	syncAll, release, err := fsSyncer(t.TempDir())
	require.NoError(t, err)
	require.NotNil(t, syncAll)
	require.NoError(t, syncAll())
	require.NoError(t, release())
	require.Error(t, syncAll(), "a closed descriptor is not a success")
	free := must(freeBytes(t.TempDir()))(t)
	require.Positive(t, free)
}
