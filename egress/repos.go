package egress

import (
	"encoding/json"
	"errors"
	"net/http"

	"weir/egress/stream"
	"weir/egress/tasks"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

func (e *Room) listRepos(w http.ResponseWriter, r *http.Request, tenant, _ string) {
	all, err := e.cfg.Repos.List(r.Context(), tenant)
	var page schemas.Page[schemas.Repo]
	if err == nil {
		page, err = tasks.Repos(r.URL.Query(), all, e.repoURL)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

func (e *Room) showRepo(w http.ResponseWriter, r *http.Request, tenant, name string) {
	repo, err := e.cfg.Repos.Get(r.Context(), tenant, name)
	if errors.Is(err, fault.ErrNotFound) {
		err = tasks.NoRepo()
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, tasks.Repo(repo, e.repoURL(repo.Name)))
}

// madeRepo answers for the making of a repository.
func (e *Room) madeRepo(w http.ResponseWriter, r *http.Request, s *schemas.Settled, doc json.RawMessage) {
	repo, err := tasks.Made(s, doc)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	w.Header().Set("Location", tasks.RepoURL(repo.Name))
	stream.WriteJSON(w, r, http.StatusCreated, tasks.Repo(repo, e.repoURL(repo.Name)))
}
