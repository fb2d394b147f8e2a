package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
)

func TestCacheCompilesOnce(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(jsonschema.CacheConfig{})
	a, err := c.Compile(json.RawMessage(`{"type":"null"}`))
	require.NoError(t, err)
	again, err := c.Compile(json.RawMessage(`{"type":"null"}`))
	require.NoError(t, err)
	require.Same(t, a, again)
	_, err = c.Compile(json.RawMessage(`{`))
	require.Error(t, err)
	_, err = c.Compile(json.RawMessage(strings.Repeat(" ", 300<<10)))
	require.ErrorContains(t, err, "larger")
}

func TestCacheDropsWhatWasUsedLeast(t *testing.T) {
	t.Parallel()
	number := func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"const":%d}`, n)) }
	get := func(c *jsonschema.Cache, n int) *jsonschema.Schema {
		s, err := c.Compile(number(n))
		require.NoError(t, err)
		return s
	}
	for _, cfg := range []jsonschema.CacheConfig{{Entries: 2}, {Bytes: 2 * len(number(1))}} {
		c := jsonschema.NewCache(cfg)
		one, two := get(c, 1), get(c, 2)
		require.Same(t, one, get(c, 1)) // now two is the oldest
		get(c, 3)
		require.Same(t, one, get(c, 1))
		require.NotSame(t, two, get(c, 2))
	}
}

func TestCacheIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(jsonschema.CacheConfig{Entries: 4})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 50 {
				n := (i + k) % 8
				s, err := c.Compile(json.RawMessage(fmt.Sprintf(`{"const":%d,"$defs":{"a":{"$ref":"#"}}}`, n)))
				if err != nil {
					t.Error(err)
					return
				}
				if got := s.Validate(json.RawMessage(strconv.Itoa(n))); got != nil {
					t.Error(got)
				}
				if got := s.Validate(json.RawMessage(`-1`)); len(got) != 1 {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}
