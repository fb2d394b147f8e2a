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
	var req schemas.SubtokenRequest
	secret := d.Secret()
	v, err := d.serveToken(ctx, token, request{
		allow: d.delegates,
		read:  func() (err error) { req, err = read(); return err },
		do: func(b bearer, f file) ([]*schemas.TaskEvent, error) {
			parent, err := d.subtoken(b, f)
			if err != nil {
				return nil, err
			}
			sub, err := task.Derive(req, parent, task.Of(f.log.Action), d.cfg.Now(), f.log.Action.Deadline)
			if err != nil {
				return nil, err
			}
			if sub.N = f.task.Subtokens() + 1; sub.N > schemas.MaxTaskSubtokens {
				return nil, fault.New(schemas.Conflict, "the task has "+strconv.Itoa(schemas.MaxTaskSubtokens)+" subtokens, which is the most; use one that it has")
			}
			made.Subtoken = sub
			return one(schemas.TaskEvent{What: schemas.TaskSubtoken, Lease: b.lease, TokenHash: secret.Hash(), Subtoken: &sub}), nil
		},
	})
	if err != nil {
		return v.Ref, schemas.NewSubtoken{}, err
	}
	made.Token = secret.subtoken(v.Ref, v.Lease, made.N)
	return v.Ref, made, nil
}
