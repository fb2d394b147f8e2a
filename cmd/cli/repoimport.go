package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

// createRepo has a repository made and waits for it. Of one that is copied it shows how far
// that is, unless it is quiet.
func (c *api) createRepo(ctx context.Context, env *Env, req schemas.RepoRequest, quiet bool) (schemas.Repo, error) {
	if req.RequestID == "" {
		req.RequestID = uuid.NewString() // so that asking again joins the same action
	}
	if req.ImportURL == "" || quiet {
		return c.askRepo(ctx, req, nil)
	}
	following, stop := context.WithCancel(ctx)
	action, end := "", func() {}
	var done sync.WaitGroup
	made, err := c.askRepo(ctx, req, func(id string) { // what is refused at once is not said to be copied
		var say func(string)
		say, end = running(env.Err, "copying; this takes as long as a clone")
		if action = id; say != nil {
			done.Go(func() { c.followCopy(following, id, say) })
		}
	})
	stop()
	done.Wait()
	end()
	if err != nil && ctx.Err() != nil && action != "" {
		err = fmt.Errorf("the copying goes on without you: `weir tail actions %s` follows it, `weir actions cancel %s` ends it", action, action)
	}
	return made, err
}

// askPause is how long a client waits before it asks again for what is still being made.
const askPause = 500 * time.Millisecond

// askRepo asks for a repository until it is there: a node that stops answers that the action
// goes on. The request has an id. Begun is told the action's, once, as soon as it is known;
// nil: nobody is.
func (c *api) askRepo(ctx context.Context, req schemas.RepoRequest, begun func(id string)) (schemas.Repo, error) {
	for {
		header := http.Header{}
		if begun != nil {
			header.Set("Prefer", "respond-async")
		}
		var made struct {
			schemas.Repo
			Action string `json:"id"` // of one that goes on
		}
		err := c.CreateRepo(ctx, header, req, &made)
		if err != nil || made.Name != "" {
			return made.Repo, err
		}
		if begun != nil {
			begun(made.Action)
			begun = nil
			continue
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return schemas.Repo{}, context.Cause(ctx)
		}
	}
}

// followCopy says how far the copying of a repository is, until ctx ends. Whoever may not
// read the action is shown only that it goes on.
func (c *api) followCopy(ctx context.Context, id string, say func(string)) {
	_ = c.Follow(ctx, "/v1/actions/"+url.PathEscape(id)+"/events", func(e sse.Event) error {
		if e.Type != string(schemas.EventProgress) {
			return nil
		}
		var ev schemas.EventView
		var p schemas.RepoProgress
		if json.Unmarshal([]byte(e.Data), &ev) == nil && json.Unmarshal(ev.Data, &p) == nil && p.Total > 0 {
			say(barText(fmt.Sprintf("%-11s", p.Phase), p.Done, p.Total))
		}
		return nil
	})
}
