package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"weir/egress"
	"weir/ingress"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/telemetry"
	"weir/schemas"
)

// awaitPause is how long a node waits before it looks for its log again.
const awaitPause = 500 * time.Millisecond

// waitRetry is the Retry-After of a node that has no log yet.
const waitRetry = 2 * time.Second

// await opens the parts of the role on an external log, and tries again for as long as waiting may
// help: the log and its nodes may start in any order. Meanwhile the node reports that it is alive,
// and why it is not ready.
func (a *App) await(ctx context.Context) error {
	var why atomic.Pointer[string]
	say := func(text string) { why.Store(&text) }
	say("the log is being opened")
	a.http.front.set(a.waiting(func() string { return *why.Load() })) //nolint:contextcheck // requests bring their own
	a.serve(a.http)
	told := ""
	for {
		depth := a.teardown.depth()
		err := a.bringUp(ctx)
		if err == nil {
			return nil
		}
		if undone := a.teardown.unwindTo(context.WithoutCancel(ctx), depth); ctx.Err() != nil || !passes(err) {
			return errors.Join(err, undone)
		}
		say(reason(err))
		if text := err.Error(); text != told {
			told = text
			a.log.LogAttrs(ctx, slog.LevelWarn, "log_not_ready", slog.String("err_kind", telemetry.ErrKind(err)))
			a.notice("waiting for the log: " + text)
		}
		pause := time.NewTimer(awaitPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// bringUp opens the servers and starts the workers. If it fails, the stack of teardowns closes the
// opened parts.
func (a *App) bringUp(ctx context.Context) error {
	a.feed, a.index, a.ingress, a.egress, a.surfaces, a.work = nil, egress.Index{}, nil, nil, nil, workers{}
	if err := a.openServices(ctx); err != nil || !a.role.works() {
		return err
	}
	return a.startWork(ctx)
}

// passes reports whether an error may be over when the log is looked for again.
func passes(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrNotFound) || errors.Is(err, context.DeadlineExceeded)
}

// reason is why there is no log, in words that name no address.
func reason(err error) string {
	if errors.Is(err, fault.ErrNotFound) {
		return "the log is not there yet"
	}
	return "the log cannot be reached, or has no leader"
}

// waiting is what a node serves that has no log.
func (a *App) waiting(why func() string) http.Handler {
	cfg := a.engineConfig(a.descriptions())
	cfg.Otherwise = &problem.Error{
		Problem:    schemas.Problem{Code: schemas.Unavailable, Detail: "this node waits for its log; try again, or ask another"},
		RetryAfter: waitRetry,
	}
	engine := ingress.NewEngine(cfg)
	egress.Mount(engine, []egress.Surface{egress.Waiting(func() schemas.Readiness {
		return schemas.Readiness{
			Role: string(a.role), Durability: a.cfg.Log.Durability, Replicas: a.copies(), Partitions: a.cfg.Log.Partitions,
			Checks: map[string]string{"log": "failed"}, Reasons: []string{why()},
		}
	})})
	return engine
}
