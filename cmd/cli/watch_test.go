package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/client"
)

// TestWatch: a list is looked at over an outage, which is noted once, until the server refuses.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := &client.Error{Status: http.StatusUnauthorized}
		looks := []error{nil, errors.New("away"), &client.Error{Status: http.StatusTooManyRequests}, nil, &client.Error{Status: http.StatusBadGateway}, refused}
		var said strings.Builder
		err := watch(t.Context(), &said, func(context.Context) error {
			next := looks[0]
			looks = looks[1:]
			return next
		})
		require.Equal(t, refused, err)
		require.Empty(t, looks)
		require.Equal(t, 2, strings.Count(said.String(), "weir: no answer since "), said.String())
		require.Contains(t, said.String(), ": away\n")
		require.Equal(t, errors.ErrUnsupported, watch(t.Context(), &said, func(context.Context) error { return errors.ErrUnsupported }), "the first look")
	})
}
