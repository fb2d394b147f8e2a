package tasks

import (
	"context"
	"strconv"

	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/schemas"
)

// Reissue makes another token for a task and kills the one before, whoever has that.
// Entries are the only entries of the policy that the asker may use, and models patterns of
// the only models; with the token it could use the task's. Errors: NOT_FOUND, STREAM_GONE, UNAVAILABLE, FORBIDDEN; CONFLICT where the
// task has ended, an agent of a pool has leased it ever, or it had as many as it may.
func (d *Desk) Reissue(ctx context.Context, tenant, id string, entries, models []string) (ref schemas.Ref, token string, err error) {
	secret := d.Secret()
	ref, err = d.people(ctx, tenant, id, func(f file) (*schemas.TaskEvent, error) {
		switch {
		case !grant.Covers(entries, f.log.Action.Entries):
			return nil, fault.New(schemas.Forbidden, "the task may use entries of the policy that this token may not")
		case !grant.CoversModels(models, f.log.Action.Models):
			return nil, fault.New(schemas.Forbidden, "the task may use models that this token may not")
		case d.over(f):
			return nil, errEnded()
		case f.task.Lease > 0:
			return nil, fault.New(schemas.Conflict, "a pool's agent has leased this task, so it is the pool's: it has no token of its own any more")
		case f.task.Reissues >= schemas.MaxTaskReissues:
			return nil, fault.New(schemas.Conflict, "the task has had "+strconv.Itoa(schemas.MaxTaskReissues)+" other tokens, which is the most; cancel it and file another one")
		}
		return &schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: secret.Hash()}, nil
	})
	if err != nil {
		return ref, "", err
	}
	return ref, secret.Text(ref, 0), nil
}
