package token

import (
	"context"
	"errors"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// A session represents a token while a browser is signed in with it. It has its own secret, so that
// the browser does not keep the token, and is stored as tokens are: every node knows it, and it
// survives a restart. It is not valid as a bearer token, appears in no list, and ends with its
// token.

// At most `forgotten` times the maximum number of active sessions are kept until tidy drops the
// ended ones, so that repeated sign-ins cannot fill the memory.
const forgotten = 10

// SignIn makes a session of a token and returns what the browser is to send instead, which
// is kept nowhere else, and when it ends. Errors: as of Verify; CONFLICT for one session
// too many; LOG_FULL; UNAVAILABLE: sign in again.
func (k *Keeper) SignIn(ctx context.Context, token string) (value string, until time.Time, err error) {
	by, _, err := k.Verify(Bearer("Bearer " + token))
	if err != nil {
		return "", until, err
	}
	of := func(s *held) bool { return s.session && !s.gone && s.token.CreatedBy == by.ID }
	if k.count(of) >= forgotten*k.cfg.sessions {
		return "", until, fault.New(schemas.Conflict, "too many browsers were signed in and out with this token within the hour; wait, or sign in with another")
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	if k.count(func(s *held) bool { return of(s) && s.valid(true, now) }) >= k.cfg.sessions {
		return "", until, fault.New(schemas.Conflict, "as many browsers are signed in with this token as may be, "+strconv.Itoa(k.cfg.sessions)+"; sign out in one")
	}
	until = now.Add(sessionLife)
	if end := by.ExpiresAt; !end.IsZero() && end.Before(until) {
		until = end
	}
	id, s, text := mint(ofSession)
	t := schemas.Token{ID: id, Name: "session", Tenant: by.Tenant, CreatedAt: now, CreatedBy: by.ID, ExpiresAt: until}
	if err := k.put(ctx, &held{token: t, hash: s.hash(), session: true}, 0); err != nil {
		return "", until, unstored(err, "whether you are signed in is unknown; sign in again")
	}
	return text, until, nil
}

// SignOut ends a session, and its streams. One that has ended, or never was, is no error.
func (k *Keeper) SignOut(ctx context.Context, value string) error {
	h, err := k.look(Session(value))
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.Unauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = k.end(ctx, h)
	if errors.Is(err, fault.ErrFenced) { // the only other write of a session is its end
		err = k.follower.CatchUp(ctx)
	}
	if err != nil {
		return unstored(err, "whether you are signed out is unknown; sign out again")
	}
	return nil
}
