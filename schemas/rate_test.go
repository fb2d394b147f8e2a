package schemas_test

import (
	"testing"
	"time"

	"weir/schemas"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		count int
		per   time.Duration
	}{
		"10/s": {10, time.Second}, "600/m": {600, time.Minute}, "1000/h": {1000, time.Hour}, "999999999/s": {999999999, time.Second},
	} {
		count, per, ok := schemas.ParseRate(text)
		if !ok || count != want.count || per != want.per {
			t.Errorf("%q: %d %s %v", text, count, per, ok)
		}
	}
	for _, text := range []string{"", "10", "/s", "0/s", "01/s", "-1/s", "+1/s", "1.5/s", "10/d", "10/S", "10/s ", " 10/s", "10//s", "1e3/s", "1000000000/s", "١/s"} {
		if _, _, ok := schemas.ParseRate(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}
