package app

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/cmd/cli"
)

// TestCheckOfWeir holds Weir itself against the contract that it checks.
func TestCheckOfWeir(t *testing.T) {
	t.Parallel()
	a := openNode.node(t)
	code, out, errs := command(t, "check", a.URL()+"=ECHO")
	assert.Equal(t, cli.ExitOK, code, out+errs)
	assert.Contains(t, out, " passed, 0 failed, 0 skipped, 0 warnings\n")
	assert.Empty(t, errs)

	code, out, _ = command(t, "check", a.URL()+"=ECHO", "--inputs", `{"steps":3}`, "--json")
	assert.Equal(t, cli.ExitOK, code, out)
}
