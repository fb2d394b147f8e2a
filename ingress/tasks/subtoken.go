package tasks

import (
	"context"
	"strconv"
	"time"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// ReadSubtoken reads a checked body of POST /agent/task/subtokens.
func ReadSubtoken(body []byte) (req schemas.SubtokenRequest, err error) {
	if err := strict.Decode(body, &req); err != nil {
		return req, err
	}
	if err := (task.Bounds{Entries: req.Entries, Models: req.Models}).Check(req.Entries != nil, req.Models != nil); err != nil {
		return req, err
	}
	if ttl, err := time.ParseDuration(req.TTL); req.TTL != "" && (err != nil || ttl < shortest) {
		return req, refuse("ttl", `must be a duration of at least a second, such as "30m"`)
	}
	if req.Repo != "" && req.Repo != schemas.RepoRead && req.Repo != schemas.RepoWrite {
		return req, refuse("repo", "must be read or write; leave it out for no rights on the repository")
	}
	return req, checkBudget(req.Budget)
}

// Delegate makes a subtoken with the token of a holder, or with another subtoken; read reads the request
// after the token is authorized. The subtoken permits no more than that token, and ends with the
// holder's. Its secret is stored nowhere. Errors: those of Send and of read, FORBIDDEN for more than the
// token permits, and CONFLICT for too many subtokens.
func (d *Service) Delegate(
	ctx context.Context, token string, read func() (schemas.SubtokenRequest, error),
) (ref schemas.Ref, made schemas.NewSubtoken, err error) {
	b, err := d.bearer(ctx, token)
	if err != nil {
		return ref, made, err
	}
	err = d.knows(ctx, b, func(f file) bool {
		sub, err := d.subtoken(b, f)
		return sub != nil || err == nil && b.holds(f) && d.lives(f, b.lease)
	})
	if err != nil {
		return ref, made, err
	}
	req, err := read()
	if err != nil {
		return b.ref, made, err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	secret := d.Secret()
	_, _, err = d.change(ctx, b.ref, func(f file) ([]*schemas.TaskEvent, error) {
		parent, err := d.subtoken(b, f)
		var events []*schemas.TaskEvent
		if parent == nil && err == nil {
			events, err = d.acts(b, f)
		}
		if err != nil {
			return nil, err
		}
		now := d.cfg.Now()
		sub, err := task.Derive(req, parent, task.Of(f.log.Action), now, f.log.Action.Deadline)
		if err != nil {
			return nil, err
		}
		if sub.N = f.task.Subtokens() + 1; sub.N > schemas.MaxTaskSubtokens {
			return nil, fault.New(schemas.Conflict, "the task has "+strconv.Itoa(schemas.MaxTaskSubtokens)+" subtokens, which is the most; use one that it has")
		}
		made.Subtoken = sub
		return append(events, &schemas.TaskEvent{What: schemas.TaskSubtoken, Lease: b.lease, TokenHash: secret.Hash(), Subtoken: &sub}), nil
	})
	if err == nil {
		err = d.durable(ctx)
	}
	if err != nil {
		return b.ref, schemas.NewSubtoken{}, d.refusal(b, err)
	}
	d.Touch(ctx, b.ref, b.lease)
	made.Token = secret.subtoken(b.ref, b.lease, made.N)
	return b.ref, made, nil
}
