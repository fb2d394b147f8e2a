package schemas

import (
	"regexp"
	"strings"
	"time"
)

// RouteRepos is where repositories are made and listed.
const RouteRepos = "/v1/repos"

// RepoMode says where a repository lives.
type RepoMode string

// The modes.
const (
	RepoHosted RepoMode = "hosted" // on this node's disk
	RepoProxy  RepoMode = "proxy"  // on an upstream git server
)

// RepoRequest is the body of POST /v1/repos. With neither URL the repository is
// hosted and has one empty commit; with both it is refused.
type RepoRequest struct {
	RequestID string `json:"request_id,omitempty" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	// Name is unique in the tenant. It ends in neither .git nor .lock, and holds no "..".
	Name string `json:"name" jsonschema:"pattern=^[a-z0-9][a-z0-9._-]{0\\,99}$"`
	// ImportURL is copied once, with its branches and tags; then the repository is hosted.
	ImportURL string `json:"import_url,omitempty" jsonschema:"maxLength=2048"`
	// UpstreamURL is where a repository stays that is only passed on.
	UpstreamURL string `json:"upstream_url,omitempty" jsonschema:"maxLength=2048"`
	// DefaultBranch is the branch that tasks begin at; default "main", or of an import
	// or an upstream that one's own.
	DefaultBranch string `json:"default_branch,omitempty" jsonschema:"maxLength=200"`
	// AllowlistKey names the entry of the policy that lets ImportURL or UpstreamURL be
	// called; default the first one that fits.
	AllowlistKey string `json:"allowlist_key,omitempty" jsonschema:"maxLength=128"`
}

// RepoOrder is the payload of an action of kind repo.
type RepoOrder struct {
	Name          string `json:"name"`
	ImportURL     string `json:"import_url,omitempty"`
	UpstreamURL   string `json:"upstream_url,omitempty"`
	DefaultBranch string `json:"default_branch,omitempty"`
	AllowlistKey  string `json:"allowlist_key,omitempty"`
}

// RepoPhase is what the copying of a repository is at.
type RepoPhase string

// The phases, in their order. A copy need not have each.
const (
	RepoCounting    RepoPhase = "counting"    // the other side looks what there is
	RepoCompressing RepoPhase = "compressing" // and makes it small
	RepoReceiving   RepoPhase = "receiving"
	RepoResolving   RepoPhase = "resolving" // the received objects are assembled
)

// RepoProgress is the data of a progress event of kind repo: how far the copying of a
// repository is. Done and Total are git's objects, and while it resolves its deltas.
type RepoProgress struct {
	Phase RepoPhase `json:"phase"`
	Done  int       `json:"done"`
	Total int       `json:"total"`
}

// Repo is a repository, as it is kept, and as it is shown but for ID.
type Repo struct {
	// ID is its name on disk. It is internal to Weir and never shown.
	ID            string   `json:"id,omitempty" jsonschema:"-"`
	Name          string   `json:"name"`
	Tenant        string   `json:"tenant,omitempty" jsonschema:"-"`
	Mode          RepoMode `json:"mode"`
	DefaultBranch string   `json:"default_branch"`
	ImportURL     string   `json:"import_url,omitempty"`
	UpstreamURL   string   `json:"upstream_url,omitempty"`
	// AllowlistKey is the entry that calls of the upstream go by; empty: the first that fits.
	AllowlistKey string    `json:"allowlist_key,omitempty"`
	Created      time.Time `json:"created"`
	// By is the action that made it.
	By string `json:"by,omitempty"`
	// URL is where git reaches it. It is not kept.
	URL string `json:"url,omitempty"`
}

// A name on disk, and each part of a branch, is of these characters, with single dots between them.
var (
	repoName   = regexp.MustCompile(`^[a-z0-9](\.?[a-z0-9_-])*$`)
	branchPart = regexp.MustCompile(`^[A-Za-z0-9_](\.?[A-Za-z0-9_-])*$`)
)

// ValidRepoName reports whether a name may stand for a repository: small letters,
// digits, dot, underscore and hyphen, the first one a letter or a digit, 1 to 100 of
// them, no two dots in a row, and not the ending of a file of git's.
func ValidRepoName(s string) bool {
	return len(s) <= 100 && repoName.MatchString(s) && !strings.HasSuffix(s, ".git") && !strings.HasSuffix(s, ".lock")
}

// RefOf is the ref of a branch.
func RefOf(branch string) string { return "refs/heads/" + branch }

// ValidBranch reports whether a name may stand for a branch of a task. It is
// narrower than git: letters, digits and . _ - / only, no part that begins or ends
// with a dot, begins with a hyphen or ends in .lock, no "..", no "//", up to MaxBranch bytes,
// and not HEAD.
func ValidBranch(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !branchPart.MatchString(part) || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return len(s) <= MaxBranch && s != "HEAD"
}
