package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileSystemCanBeSynced(t *testing.T) {
	t.Parallel()
	f := must(os.Create(filepath.Join(t.TempDir(), "f")))(t)
	syncAll, err := fsSyncer(f)
	require.NoError(t, err)
	require.NotNil(t, syncAll)
	require.NoError(t, syncAll())
	require.NoError(t, f.Close())
	require.Error(t, syncAll(), "a closed descriptor is not a success")
	free := must(freeBytes(t.TempDir()))(t)
	require.Positive(t, free)
}
