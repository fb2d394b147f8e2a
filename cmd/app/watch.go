package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"weir/schemas"
)

// watchEvery is how often a list is looked at. Lists are not streams: one
// action's events are, and the evidence is.
const watchEvery = 500 * time.Millisecond

// watch calls look again and again until it fails or ctx ends, which is no error.
func watch(ctx context.Context, look func(context.Context) error) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		if err := look(ctx); ctx.Err() != nil {
			return nil //nolint:nilerr // the person has seen enough
		} else if err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watchActions prints each action as it is accepted and as its status changes,
// beginning with the newest ten.
func (c *client) watchActions(ctx context.Context, out io.Writer, asJSON bool) error {
	shown := map[string]schemas.Status{}
	first := true
	return watch(ctx, func(ctx context.Context) error {
		entries, err := c.recent(ctx, shown, first)
		if err != nil {
			return err
		}
		first = false
		for _, e := range entries {
			if shown[e.ID] == e.Status {
				continue
			}
			shown[e.ID] = e.Status
			if err := printEntry(out, e, asJSON); err != nil {
				return err
			}
		}
		return nil
	})
}

// recent lists the actions that are new or not settled yet, oldest first: pages
// are read until one holds nothing that could have changed.
func (c *client) recent(ctx context.Context, shown map[string]schemas.Status, first bool) ([]schemas.ActionEntry, error) {
	const settledAll = 20 // so many settled actions in a row, and the rest is history
	var newest []schemas.ActionEntry
	cursor, quiet := "", 0
	for quiet < settledAll {
		path := "/v1/actions?limit=50"
		if first {
			path = "/v1/actions?limit=10"
		}
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		var page schemas.Page[schemas.ActionEntry]
		if err := c.get(ctx, path, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Items {
			newest = append(newest, e)
			if quiet++; shown[e.ID] != e.Status {
				quiet = 0
			}
		}
		if cursor = page.Next; cursor == "" || first {
			break
		}
	}
	oldest := make([]schemas.ActionEntry, 0, len(newest))
	for i := len(newest) - 1; i >= 0; i-- {
		if e := newest[i]; first || shown[e.ID] != e.Status {
			oldest = append(oldest, e)
		}
	}
	return oldest, nil
}

func printEntry(out io.Writer, e schemas.ActionEntry, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(e)
	}
	_, err := fmt.Fprintf(out, "%s  %-4s  %s  %-15s %s\n", e.Created.Local().Format("15:04:05.000"), e.Kind, e.ID, e.Status, e.Code)
	return err
}

// watchDead prints each dead letter as it is parked, from the first one on.
func (c *client) watchDead(ctx context.Context, out io.Writer, asJSON bool) error {
	last := uint64(0)
	return watch(ctx, func(ctx context.Context) error {
		return c.deadLetters(ctx, last, func(d schemas.DeadLetterView) error {
			last = d.Seq
			if asJSON {
				return json.NewEncoder(out).Encode(d)
			}
			return printLetter(out, d)
		})
	})
}
