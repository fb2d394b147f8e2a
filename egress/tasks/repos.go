package tasks

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Repo is a repository as its people see it.
func Repo(r schemas.Repo, at string) schemas.Repo {
	r.ID, r.Tenant, r.URL = "", "", at
	return r
}

// RepoURL is where a repository is shown.
func RepoURL(name string) string { return schemas.RouteRepos + "/" + name }

// reposPage is how many repositories a page has, unless the request says otherwise.
const reposPage = 100

// Repos is the requested page of a tenant's repositories, in the order of their names. A cursor is
// the last name of the previous page. At gives the git URL of a repository.
func Repos(q url.Values, all []schemas.Repo, at func(name string) string) (schemas.Page[schemas.Repo], error) {
	page := schemas.Page[schemas.Repo]{Items: []schemas.Repo{}}
	p := stream.NewParams(q, "limit", "cursor")
	limit, cursor := p.Limit(reposPage), p.Cursor(schemas.ValidRepoName)
	if p.Err != nil {
		return page, p.Err
	}
	for _, r := range all {
		if strings.Compare(r.Name, cursor) <= 0 {
			continue
		}
		if len(page.Items) == limit {
			page.Next = page.Items[limit-1].Name
			break
		}
		page.Items = append(page.Items, Repo(r, at(r.Name)))
	}
	return page, nil
}

// Made reads the repository that an action has made, or gives the error that says why
// it has not: doc is the result document.
func Made(s *schemas.Settled, doc json.RawMessage) (r schemas.Repo, err error) {
	if s.Outcome == schemas.OutcomeSucceeded {
		return r, json.Unmarshal(doc, &r)
	}
	e := &problem.Error{Problem: schemas.Problem{Code: cmp.Or(s.Code, s.Outcome.Code()), Detail: cmp.Or(s.Message, messageOf(s.Outcome))}}
	return r, e
}

func messageOf(o schemas.Outcome) string {
	switch o {
	case schemas.OutcomeCanceled:
		return "it was canceled, and the repository is not there; ask for it again under another request_id if it is still wanted"
	case schemas.OutcomeExpired:
		return "the time for it is over, and the repository is not there; ask for it again under another request_id"
	case schemas.OutcomeUnknown:
		return "whether the repository was made is not known; look whether it is there before it is asked for again"
	default:
		return "the repository could not be made"
	}
}

// RepoResult is the public form of the result document; nil where it has none.
func RepoResult(s *schemas.Settled, doc json.RawMessage) json.RawMessage {
	r, err := Made(s, doc)
	if err != nil {
		return nil
	}
	out, err := ledger.Encode(Repo(r, ""))
	if err != nil {
		return nil
	}
	return out
}

// NoRepo is the error for a repository that does not exist.
func NoRepo() error { return fault.New(schemas.NotFound, "there is no such repository") }
