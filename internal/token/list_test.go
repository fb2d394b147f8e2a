package token

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

// TestListInPages shows every token once and in order, whatever becomes of them between the
// pages. Those of one moment have an order too.
func TestListInPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := node(t, bucket.New(), Config{})
		const apart, together = 16, 9
		var want []string
		for i := range apart + together {
			want = append(want, "n"+strconv.Itoa(i))
			k.make(t, schemas.TokenRequest{Name: want[i]})
			if i < apart {
				pass(time.Millisecond)
			}
		}
		k.make(t, schemas.TokenRequest{Tenant: "acme"})
		require.Empty(t, k.Name("nobody"))
		for _, limit := range []int{1, 7, 24, 25, 1000} {
			var got []string
			cursor := ""
			for {
				page, err := k.List(schemas.Operator, cursor, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Items), limit)
				for _, token := range page.Items {
					got = append(got, token.Name)
					require.Equal(t, token.Name, k.Name(token.ID))
				}
				if cursor = page.Next; cursor == "" {
					break
				}
				k.revoke(t, page.Items[len(page.Items)-1].ID)
			}
			require.Equal(t, want[:apart], got[:apart], limit)
			require.ElementsMatch(t, want[apart:], got[apart:], limit)
		}
		empty, err := k.List("nobody", "", 1)
		require.NoError(t, err)
		require.Equal(t, schemas.Page[schemas.Token]{Items: []schemas.Token{}}, empty)
		k.Stop()
	})
}

func TestOtherCursorsAreRefused(t *testing.T) {
	t.Parallel()
	k := node(t, bucket.New(), Config{})
	id := strings.Repeat("a", idLength)
	for _, cursor := range []string{"x", id, id + "-", id + "-A", id + "-01", id + "-+1", id + "_1", id + "-1 ", id + "-" + strings.Repeat("z", 20), strings.ToUpper(id) + "-1"} {
		_, err := k.List(schemas.Operator, cursor, 1)
		require.Equal(t, schemas.InvalidRequest, code(t, err), cursor)
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "k7m2q9x4v8cgb6n3-mk3x2o00", "k7m2q9x4v8cgb6n3--1", "41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parsePosition(text); ok && p.String() != text {
			t.Fatalf("%q reads as %q", text, p)
		}
	})
}
