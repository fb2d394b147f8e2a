package models_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/schemas"
)

func ids(list []schemas.ModelView) []string {
	names := []string{}
	for _, v := range list {
		names = append(names, v.ID)
	}
	return names
}

func TestViews(t *testing.T) {
	t.Parallel()
	priced := model("openai/gpt-4o", up("gpt"))
	priced.Context = 128000
	priced.Price = &schemas.ModelPrice{Input: 2_500_000, Output: 10_000_000, Request: 1}
	s := compile(t, priced, model("solo", up("local")), alias("fast", "openai/gpt-4o"), model("z/*", up("z")))
	price := &schemas.ModelPricing{Prompt: "0.0000025", Completion: "0.00001", Request: "0.000000001"}
	want := []schemas.ModelView{
		{ID: "fast", Object: "model", OwnedBy: "openai", ContextLength: 128000, Pricing: price},
		{ID: "openai/gpt-4o", Object: "model", OwnedBy: "openai", ContextLength: 128000, Pricing: price},
		{ID: "solo", Object: "model", OwnedBy: "local"},
		{ID: "z/*", Object: "model", OwnedBy: "z"},
	}
	require.Equal(t, want, s.Views(nil, nil))
	require.Equal(t, want, s.List(nil, nil))

	v, ok := s.View("z/any", nil, nil)
	require.True(t, ok)
	require.Equal(t, schemas.ModelView{ID: "z/any", Object: "model", OwnedBy: "z"}, v)
	v, ok = s.View("z/*", nil, nil)
	require.True(t, ok)
	require.Equal(t, want[3], v)
	for _, gone := range []string{"y", "y/*", "*", "", "z/"} {
		_, ok = s.View(gone, nil, nil)
		require.False(t, ok, gone)
	}
	_, ok = s.View("solo", func(string) bool { return false }, nil)
	require.False(t, ok)

	require.Equal(t, []string{"fast", "openai/gpt-4o"}, ids(s.List([]string{"openai/*"}, nil)))
	require.Equal(t, []string{"fast", "z/one"}, ids(s.List([]string{"z/one", "fast", "none"}, nil)))
	require.Equal(t, []string{"z/*", "z/one"}, ids(s.List([]string{"z/one", "z/*"}, nil)))

	only := func(entries ...string) func(string) bool {
		return func(e string) bool { return slices.Contains(entries, e) }
	}
	require.Equal(t, []string{"fast", "openai/gpt-4o"}, ids(s.Views(nil, only("model:gpt", "other"))), "of the others no upstream may be asked")
	require.Equal(t, []string{"z/*", "z/one"}, ids(s.List([]string{"z/one", "z/*", "solo"}, only("model:z"))))
	require.Empty(t, s.List(nil, only("model:none")))
	for name, want := range map[string]bool{"z/any": true, "z/*": true, "solo": false, "fast": false} {
		_, ok = s.View(name, nil, only("model:z"))
		require.Equal(t, want, ok, name)
	}

	zero := compile(t, schemas.Model{Name: "free", Upstreams: []schemas.ModelUpstream{up("f")}, Price: &schemas.ModelPrice{}})
	require.Equal(t, &schemas.ModelPricing{Prompt: "0", Completion: "0", Request: "0"}, zero.Views(nil, nil)[0].Pricing)
	require.Equal(t, []string{"free"}, ids(zero.Views(func(n string) bool { return models.May([]string{"free"}, n) }, nil)))
}
