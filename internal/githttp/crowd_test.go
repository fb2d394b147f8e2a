package githttp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/githttp"
	"weir/internal/task"
	"weir/schemas"
)

func TestCrowd(t *testing.T) {
	t.Parallel()
	c := githttp.NewCrowd("pushes", 2)
	enter := func(tenant, id string) (func(), error) { return c.Enter(task.Grant{Tenant: tenant, TaskID: id}) }
	first, err := enter("acme", "t")
	require.NoError(t, err)
	second, err := enter("acme", "t")
	require.NoError(t, err)
	_, err = enter("acme", "t")
	require.Equal(t, schemas.RateLimited, code(t, err))
	require.ErrorContains(t, err, "this task has 2 pushes on their way")
	for _, other := range []task.Grant{{Tenant: "acme", TaskID: "u"}, {Tenant: "globex", TaskID: "t"}} {
		leave, err := c.Enter(other)
		require.NoError(t, err)
		defer leave()
	}
	first()
	third, err := enter("acme", "t")
	require.NoError(t, err)
	second()
	third()
	for range 5 {
		leave, err := c.Enter(task.Grant{Tenant: "acme"})
		require.NoError(t, err, "who has no task is not counted")
		leave()
	}
}
