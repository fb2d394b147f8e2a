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
	require.NoError(t, syncFS(f))
	require.NoError(t, f.Close())
	require.Error(t, syncFS(f), "a closed descriptor is not a success")
	free := must(freeBytes(t.TempDir()))(t)
	require.Positive(t, free)
}
