package token

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestVerifyReadsOneSpelling(t *testing.T) {
	t.Parallel()
	k := node(t, bucket.New(), Config{})
	made := k.make(t, schemas.TokenRequest{})
	require.Regexp(t, `^weir1_[a-z0-9]{16}_[A-Za-z0-9_-]{43}$`, made.Secret)
	id, secret := made.ID, made.Secret[len(made.Secret)-secretText:]
	for _, good := range []string{"Bearer ", "bearer ", "BEARER "} {
		got, _, err := k.Verify(Bearer(good + made.Secret))
		require.NoError(t, err)
		require.Equal(t, id, got.ID)
	}
	other := k.make(t, schemas.TokenRequest{})
	last := secret[len(secret)-1]
	alias := string(rune(last + 1)) // other bits behind the last byte
	for name, fields := range map[string][]string{
		"none":          nil,
		"two":           {"Bearer " + made.Secret, "Bearer " + made.Secret},
		"no scheme":     {made.Secret},
		"basic":         {"Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+made.Secret))},
		"two spaces":    {"Bearer  " + made.Secret},
		"longer":        {"Bearer " + made.Secret + "A"},
		"shorter":       {"Bearer " + made.Secret[:len(made.Secret)-1]},
		"other prefix":  {"Bearer weir2_" + made.Secret[len(prefix):]},
		"upper id":      {"Bearer " + prefix + strings.ToUpper(id) + "_" + secret},
		"other id":      {"Bearer " + prefix + other.ID + "_" + secret},
		"unknown id":    {"Bearer " + prefix + strings.Repeat("a", idLength) + "_" + secret},
		"no separator":  {"Bearer " + prefix + id + "-" + secret},
		"loose bits":    {"Bearer " + prefix + id + "_" + secret[:secretText-1] + alias},
		"standard form": {"Bearer " + prefix + id + "_" + strings.Repeat("+", secretText)},
		"very long":     {"Bearer " + strings.Repeat("A", 1<<16)},
		"nothing zero":  {"Bearer " + prefix + id + "_" + strings.Repeat("A", secretText)},
	} {
		_, _, err := k.Verify(Bearer(fields...))
		require.Equal(t, errUnauthorized(), err, name)
	}
}

func TestNothingStoredGivesATokenAway(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k := node(t, s, Config{})
	made := k.make(t, schemas.TokenRequest{Name: "ci", ExpiresIn: "1h", Entries: []string{"orders"}, Rate: "5/s"})
	stored := string(s.Newest(made.ID).Data)
	_, raw, ok := Bearer("Bearer " + made.Secret).parse()
	require.True(t, ok)
	for _, form := range []string{
		made.Secret, made.Secret[len(made.Secret)-secretText:], string(raw[:]), base64.StdEncoding.EncodeToString(raw[:]), hex.EncodeToString(raw[:]),
		made.Secret[len(made.Secret)-secretText:][:8], hex.EncodeToString(raw[:4]),
	} {
		require.NotContains(t, stored, form)
	}
	require.Contains(t, stored, fmt.Sprintf(`"sha256":"%x"`, raw.hash()))
	require.NotContains(t, stored, "status")
}

// TestRevocationReachesOtherNodes: at once where it was made, and elsewhere by the watch, or by the next look where the
// watch says nothing; and where it says that it lost something, without a tick between the loss and the look.
func TestRevocationReachesOtherNodes(t *testing.T) {
	t.Parallel()
	table.BubbleNamed(t, map[string]struct{}{"told": {}, "not told": {}, "lost": {}}, func(t *testing.T, how string, _ struct{}) {
		s := bucket.New()
		here, there := node(t, s, Config{}), node(t, s, Config{})
		made := here.make(t, schemas.TokenRequest{})
		there.verifies(t, made.Secret, "a new token is good everywhere at once, as far as the watch goes")
		s.Set(func(s *bucket.Bucket) { s.Deaf = how != "told" })
		here.revoke(t, made.ID)
		here.refuses(t, schemas.Unauthorized, made.Secret)
		if how != "told" {
			there.verifies(t, made.Secret)
		}
		if how == "not told" {
			pass(999 * time.Millisecond)
		}
		if how == "lost" {
			s.Set(func(s *bucket.Bucket) { s.Watchers[1].Lost() })
			synctest.Wait()
		}
		there.refuses(t, schemas.Unauthorized, made.Secret)
		here.Stop()
		there.Stop()
	})
}

func TestNobodyIsLetInUnread(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	made := node(t, s, Config{}).make(t, schemas.TokenRequest{})
	k := New(s, Config{})
	k.refuses(t, schemas.Unavailable, made.Secret, "before Start")
	_, err := k.List(schemas.Operator, "", 1)
	require.Equal(t, schemas.Unavailable, code(t, err))
	_, err = k.First(t.Context(), filepath.Join(t.TempDir(), "f"), true)
	require.Equal(t, schemas.Unavailable, code(t, err))
	k.Stop()

	s.Set(func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable })
	require.Error(t, k.Start(t.Context()))
	k.refuses(t, schemas.Unavailable, made.Secret)
	k.refuses(t, schemas.Unauthorized, "x", "what is no token is none without the store")
}

// TestStoreOutOfReach lets callers and streams in for a while, then nobody, and again when it is back: whether tokens
// were revoked meanwhile cannot be known.
func TestStoreOutOfReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()
		k := node(t, s, Config{})
		made := k.make(t, schemas.TokenRequest{})
		ctx, release, err := k.Stream(t.Context(), bearing(made.Secret))
		require.NoError(t, err)
		defer release()
		s.Set(func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable })
		pass(9 * time.Second)
		k.verifies(t, made.Secret)
		require.NoError(t, ctx.Err(), "a short interruption is borne")
		pass(time.Second + time.Millisecond)
		k.refuses(t, schemas.Unavailable, made.Secret)
		_, _, err = k.Stream(t.Context(), bearing(made.Secret))
		require.Equal(t, schemas.Unavailable, code(t, err))
		_, err = k.List(schemas.Operator, "", 1)
		require.Equal(t, schemas.Unavailable, code(t, err))
		pass(k.cfg.check)
		require.Error(t, ctx.Err())
		s.Set(func(s *bucket.Bucket) { s.Down = nil })
		pass(time.Second)
		k.verifies(t, made.Secret)
		again, release, err := k.Stream(t.Context(), bearing(made.Secret))
		require.NoError(t, err)
		defer release()
		pass(time.Minute)
		require.NoError(t, again.Err())
		k.Stop()
	})
}

func TestDamagedRecordsLetNobodyIn(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k := node(t, s, Config{})
	made := k.make(t, schemas.TokenRequest{})
	good := string(s.Newest(made.ID).Data)
	for name, spoil := range map[string]string{
		"no JSON":       "{",
		"deleted":       "",
		"null":          "null",
		"empty":         "{}",
		"other version": strings.Replace(good, `"v":1`, `"v":2`, 1),
		"other id":      strings.Replace(good, made.ID, strings.Repeat("b", idLength), 1),
		"no hash":       strings.Replace(good, "sha256", "md5", 1),
		"short hash":    strings.Replace(good, `"sha256":"`, `"sha256":"","x":"`, 1),
		"long hash":     strings.Replace(good, `"sha256":"`, `"sha256":"00`, 1),
		"no tenant":     strings.Replace(good, `"tenant":"default"`, `"tenant":""`, 1),
	} {
		require.NotEqual(t, good, spoil, name)
		k.verifies(t, made.Secret, name)
		s.Set(func(s *bucket.Bucket) { s.Store(made.ID, []byte(spoil)) })
		k.refuses(t, schemas.Unauthorized, made.Secret, name)
		_, err := k.Revoke(t.Context(), root(), made.ID)
		require.Equal(t, schemas.NotFound, code(t, err), name)
		require.Empty(t, k.list(t, schemas.Operator), name)
		s.Set(func(s *bucket.Bucket) { s.Store(made.ID, []byte(good)) })
	}
	before := k.held[made.ID]
	k.learn(schemas.Record{Subject: made.ID, Seq: 1, Data: nil})
	require.Same(t, before, k.held[made.ID], "an old record changes nothing")
}

func TestRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()
		k := node(t, s, Config{Rate: "3/m"})
		own := k.make(t, schemas.TokenRequest{Rate: "2/s"})
		shared := k.make(t, schemas.TokenRequest{})
		ask := func(text string) error { _, _, err := k.Verify(bearing(text)); return err }
		for range 3 {
			require.NoError(t, ask(shared.Secret))
		}
		limited := func(wait time.Duration, err error) {
			t.Helper()
			require.Equal(t, errLimited(wait), err)
		}
		limited(20*time.Second, ask(shared.Secret))
		require.NoError(t, ask(own.Secret), "each token has a count of its own")
		require.NoError(t, ask(own.Secret))
		limited(500*time.Millisecond, ask(own.Secret))
		wrong := own.Secret[:len(own.Secret)-secretText] + shared.Secret[len(shared.Secret)-secretText:]
		require.Equal(t, schemas.Unauthorized, code(t, ask(wrong)), "whoever fails is not told of rates")
		pass(500 * time.Millisecond)
		require.NoError(t, ask(own.Secret), "a refused request costs nothing")
		require.Error(t, ask(own.Secret))
		k.revoke(t, own.ID)
		require.Equal(t, schemas.Unauthorized, code(t, ask(own.Secret)))
		k.Stop()
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := node(t, bucket.New(), Config{Streams: 2})
		made := k.make(t, schemas.TokenRequest{ExpiresIn: "1m", Rate: "1/h"})
		other := k.make(t, schemas.TokenRequest{})
		open := func(text string) (context.Context, func()) {
			ctx, release, err := k.Stream(t.Context(), bearing(text))
			require.NoError(t, err)
			return ctx, release
		}
		refused := func(text string) { // in the same words, whyever
			_, _, err := k.Verify(bearing(text))
			require.Equal(t, errUnauthorized(), err)
			_, _, err = k.Stream(t.Context(), bearing(text))
			require.Equal(t, errUnauthorized(), err)
		}
		one, releaseOne := open(made.Secret)
		two, _ := open(made.Secret)
		_, _, err := k.Stream(t.Context(), bearing(made.Secret))
		require.Equal(t, schemas.RateLimited, code(t, err))
		theirs, releaseTheirs := open(other.Secret)
		uncounted, _, err := k.While(t.Context(), bearing(made.Secret))
		require.NoError(t, err)
		releaseOne()
		releaseOne()
		require.Error(t, one.Err())
		require.NoError(t, two.Err())
		three, _ := open(made.Secret)
		pass(time.Minute)
		require.Error(t, two.Err(), "expired")
		require.Error(t, uncounted.Err(), "it counts for no stream, and ends with its token")
		refused(made.Secret)
		require.Error(t, three.Err())
		require.NoError(t, theirs.Err())
		k.revoke(t, other.ID)
		require.Error(t, theirs.Err(), "revoked")
		refused(other.Secret)
		_, _, unknown := mint(prefix)
		refused(unknown)
		refused("x")
		releaseTheirs()
		last := k.make(t, schemas.TokenRequest{})
		ctx, cancel := context.WithCancel(t.Context())
		mine, leave, err := k.Stream(ctx, bearing(last.Secret))
		require.NoError(t, err)
		cancel()
		require.Error(t, mine.Err())
		leave()
		require.Empty(t, k.held[last.ID].use.ends)
		mine, leave, err = k.Stream(t.Context(), bearing(last.Secret))
		require.NoError(t, err)
		defer leave()
		k.Stop()
		k.Stop()
		require.Error(t, mine.Err())
	})
}

var errDown = errors.New("dial tcp 10.0.0.1: refused")
