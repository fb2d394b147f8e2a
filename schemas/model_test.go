package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestValidModel(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"m", "openai/gpt-5", "accounts/fireworks/models/x", "m:free", "a@1+b", ".hidden", "~openai/gpt-latest", "~m",
		strings.Repeat("m", schemas.MaxModel),
	} {
		require.True(t, schemas.ValidModel(name), name)
	}
	for _, name := range []string{
		"", "/m", "m/", "a//b", "..", "a/../b", "https://h/m", "a?b", "a#b", "a b", "a\\b", "a%2fb", "a\nb", "a\x00", "é", "*", "a/*",
		"~", "~/m", "~../m", "~~m", "a/~b", "a~b", strings.Repeat("m", schemas.MaxModel+1),
	} {
		require.False(t, schemas.ValidModel(name), name)
	}
}
