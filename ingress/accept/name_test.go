package accept_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 255)
	type testCase struct {
		fields []string
		want   string
		bad    bool
	}
	table.Run(t, map[string]testCase{
		"absent":            {nil, "", false},
		"quoted":            {[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", false},
		"bare":              {[]string{`8e03978e`}, "8e03978e", false},
		"bare with marks":   {[]string{`a:b/c+d=e.f~_`}, "a:b/c+d=e.f~_", false},
		"space around":      {[]string{" \t\"k\" "}, "k", false},
		"space inside":      {[]string{`"a b"`}, "a b", false},
		"escapes":           {[]string{`"a\"b\\c"`}, `a"b\c`, false},
		"longest":           {[]string{`"` + long + `"`}, long, false},
		"too long":          {[]string{`"` + long + `a"`}, "", true},
		"empty":             {[]string{""}, "", true},
		"empty quoted":      {[]string{`""`}, "", true},
		"two fields":        {[]string{"a", "a"}, "", true},
		"list":              {[]string{`"a", "b"`}, "", true},
		"parameter":         {[]string{`"a";b=1`}, "", true},
		"bare with space":   {[]string{`a b`}, "", true},
		"quote inside bare": {[]string{`a"b`}, "", true},
		"unclosed":          {[]string{`"a`}, "", true},
		"ends in a escape":  {[]string{`"a\`}, "", true},
		"NUL":               {[]string{"\"a\x00\""}, "", true},
		"non-ASCII":         {[]string{`"café"`}, "", true},
		"delete character":  {[]string{"a\x7f"}, "", true},
		"tab inside":        {[]string{"\"a\tb\""}, "", true},
	}, func(t *testing.T, tc testCase) {
		got, err := accept.Key(tc.fields)
		require.Equal(t, tc.want, got)
		if !tc.bad {
			require.NoError(t, err)
			return
		}
		var public *fault.Error
		require.ErrorAs(t, err, &public)
		require.Equal(t, schemas.InvalidRequest, public.Code)
	})
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	require.Zero(t, accept.NameOf("t", "/r", "", ""))
	require.Equal(t, accept.Name{ID: "r1", Source: schemas.IDRequest}, accept.NameOf("t", "/r", "r1", ""))
	key := accept.NameOf("t", "/r", "", "k")
	require.Equal(t, schemas.IDKey, key.Source)
	require.True(t, schemas.ValidID(key.ID), key.ID)
	require.Equal(t, key, accept.NameOf("t", "/r", "r1", "k"), "with both, the key names the action")
	for _, other := range []accept.Name{
		accept.NameOf("u", "/r", "", "k"), accept.NameOf("t", "/s", "", "k"), accept.NameOf("t", "/r", "", "l"),
		accept.NameOf("t/", "r", "", "k"), accept.NameOf("", "t/r", "", "k"),
	} {
		require.NotEqual(t, key.ID, other.ID)
	}
	require.Equal(t, "idk-", key.ID[:4])
}

func TestPrefer(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, tc := range map[string]struct {
		fields  []string
		hold    time.Duration
		applied string
	}{
		"absent":                  {nil, -1, ""},
		"async":                   {[]string{"respond-async"}, 0, "respond-async"},
		"wait":                    {[]string{"wait=10"}, 10 * s, "wait=10"},
		"wait zero":               {[]string{"wait=0"}, 0, "wait=0"},
		"both":                    {[]string{"respond-async, wait=5"}, 5 * s, "respond-async, wait=5"},
		"both in two fields":      {[]string{"wait=5", "respond-async"}, 5 * s, "respond-async, wait=5"},
		"quoted":                  {[]string{`wait="7"`}, 7 * s, "wait=7"},
		"space":                   {[]string{` wait = 7 , respond-async `}, 7 * s, "respond-async, wait=7"},
		"first counts":            {[]string{"wait=3, wait=9"}, 3 * s, "wait=3"},
		"first counts, malformed": {[]string{"wait=x, wait=9"}, -1, ""},
		"over the longest":        {[]string{"wait=301"}, 300 * s, "wait=300"},
		"negative":                {[]string{"wait=-1"}, -1, ""},
		"fraction":                {[]string{"wait=1.5"}, -1, ""},
		"empty value":             {[]string{"wait="}, -1, ""},
		"unknown":                 {[]string{"return=minimal; foo, handling=strict"}, -1, ""},
		"parameter":               {[]string{"respond-async; x=y"}, 0, "respond-async"},
		"comma in quotes":         {[]string{`foo="a, respond-async"`}, -1, ""},
		"escape in quotes":        {[]string{`foo="a\", respond-async", wait=2`}, 2 * s, "wait=2"},
		"unclosed quote":          {[]string{`foo="a, respond-async`}, -1, ""},
		"empty items":             {[]string{",,respond-async,,"}, 0, "respond-async"},
		"prefix is not the name":  {[]string{"respond-asynchronously, waiting=3"}, -1, ""},
	} {
		p := accept.Prefer(tc.fields)
		require.Equal(t, tc.hold, p.Hold, name)
		require.Equal(t, tc.applied, p.Applied, name)
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{`"k"`, `k`, `"a\"b"`, `"a\`, `"`, `""`, `a, b`, "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		key, err := accept.Key([]string{field})
		if err != nil {
			var public *fault.Error
			if !errors.As(err, &public) || key != "" {
				t.Fatalf("%q, %v", key, err)
			}
			return
		}
		if key == "" || len(key) > 255 {
			t.Fatalf("a key of %d bytes", len(key))
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := accept.Key([]string{quoted})
		if err != nil || again != key {
			t.Fatalf("the quoted spelling is another key: %q %v", again, err)
		}
		if name := accept.NameOf("t", "/r", "", key); !schemas.ValidID(name.ID) {
			t.Fatalf("not an id: %q", name.ID)
		}
	})
}
