package app

import (
	"context"
	"fmt"
	"time"

	"weir/ingress/tasks"
	"weir/internal/board"
	"weir/schemas"
)

// openTasks begins to follow the tasks that have not ended, and opens the desk at
// which agents and their people change them.
func (a *App) openTasks(ctx context.Context) error {
	a.board = board.New(a.broker, board.Config{Layout: a.layout(), Logger: a.log})
	if err := a.board.Start(ctx); err != nil {
		return fmt.Errorf("tasks: %w", err)
	}
	a.teardown.push(func(context.Context) error { a.board.Stop(); return nil })
	a.desk = tasks.NewDesk(a.ledger, a.board, a.broker.Leases(), tasks.Config{
		Verify:  func(token string) (schemas.Token, error) { return a.verify([]string{"Bearer " + token}) },
		Barrier: a.broker.Barrier, Lease: a.cfg.Tasks.Lease, Rate: a.cfg.Auth.Rate, Draining: a.draining,
	})
	return nil
}

// baseURL is where others reach this node.
func (a *App) baseURL() string { return a.cfg.BaseURL(a.http.addr()) }

// deadlines are how long the actions of each kind may take.
func (a *App) deadlines() map[schemas.Kind]time.Duration {
	d := a.cfg.Deadline
	return map[schemas.Kind]time.Duration{
		schemas.KindHTTP: d.HTTP, schemas.KindPlan: d.Plan, schemas.KindRun: d.Run,
		schemas.KindTask: d.Task, schemas.KindPush: d.Push, schemas.KindRepo: d.Repo,
		schemas.KindChat: d.Chat,
	}
}
