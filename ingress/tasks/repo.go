package tasks

import (
	"net/url"
	"unicode/utf8"

	"weir/ingress/strict"
	"weir/schemas"
)

// The longest of what names an upstream, in characters.
const (
	maxURL = 2048
	maxKey = 128
)

// ReadRepo reads a checked body of POST /v1/repos. Whether its URL may be called is
// not looked into. Its errors are those of Read.
func ReadRepo(body []byte) (id string, order schemas.RepoOrder, err error) {
	var doc schemas.RepoRequest
	if err := strict.Decode(body, &doc); err != nil {
		return "", order, err
	}
	order = schemas.RepoOrder{
		Name: doc.Name, ImportURL: doc.ImportURL, UpstreamURL: doc.UpstreamURL,
		DefaultBranch: doc.DefaultBranch, AllowlistKey: doc.AllowlistKey,
	}
	const form = "must be an absolute http or https URL without user, query and fragment; credentials are the policy entry's"
	for _, m := range []struct {
		name string
		ok   bool
		what string
	}{
		{"request_id", doc.RequestID == "" || schemas.ValidID(doc.RequestID), idForm},
		{"name", doc.Name != "", "is missing; name the repository"},
		{"name", schemas.ValidRepoName(doc.Name), "must be 1 to 100 of the characters a-z 0-9 . _ -, begin with a letter or a digit, and have neither .. nor .git or .lock at its end"},
		{"upstream_url", doc.ImportURL == "" || doc.UpstreamURL == "", "cannot be combined with import_url: a repository is either copied here or stays upstream"},
		{"import_url", doc.ImportURL == "" || validURL(doc.ImportURL), form},
		{"upstream_url", doc.UpstreamURL == "" || validURL(doc.UpstreamURL), form},
		{"default_branch", doc.DefaultBranch == "" || validBranch(doc.DefaultBranch), "must be the name of a branch, without refs/heads/"},
		{"allowlist_key", utf8.RuneCountInString(doc.AllowlistKey) <= maxKey, "must be at most 128 characters"},
		{"allowlist_key", doc.AllowlistKey == "" || Upstream(order) != "", "goes with import_url or upstream_url alone"},
	} {
		if !m.ok {
			return "", schemas.RepoOrder{}, refuse(m.name, m.what)
		}
	}
	return doc.RequestID, order, nil
}

// Upstream is the URL that the making of a repository calls; empty: none.
func Upstream(order schemas.RepoOrder) string {
	if order.ImportURL != "" {
		return order.ImportURL
	}
	return order.UpstreamURL
}

func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && utf8.RuneCountInString(text) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") &&
		u.Hostname() != "" && u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && u.Opaque == ""
}
