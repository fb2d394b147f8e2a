package app

import (
	"fmt"
	"slices"
	"strings"

	"weir/schemas"
)

// Role is which rooms a process has. Processes of any roles share one log; a role of its
// own needs an external one.
type Role string

// The roles.
const (
	RoleAll     Role = ""        // every room: `weir serve`
	RoleIngress Role = "ingress" // takes writes, and answers who waits for their ends
	RoleWorker  Role = "worker"  // does the work
	RoleEgress  Role = "egress"  // serves reads and streams
)

// String is the role's word.
func (r Role) String() string {
	if r == RoleAll {
		return "serve"
	}
	return string(r)
}

// takes reports whether the role takes writes.
func (r Role) takes() bool { return r == RoleAll || r == RoleIngress }

// works reports whether the role performs actions.
func (r Role) works() bool { return r == RoleAll || r == RoleWorker }

// shows reports whether the role serves reads.
func (r Role) shows() bool { return r == RoleAll || r == RoleEgress }

// answers reports whether the role follows the log for those who wait on it.
func (r Role) answers() bool { return r.takes() || r.shows() }

// kinds are those that a role's worker takes where nobody chooses. A push stays with the
// process that took it, as its pack never goes to the log.
func (r Role) kinds() []schemas.Kind {
	all := schemas.Kinds()
	if r == RoleWorker {
		all = slices.DeleteFunc(all, func(k schemas.Kind) bool { return k == schemas.KindPush })
	}
	return all
}

// parseKinds reads a choice of kinds for a worker, with commas between them.
func parseKinds(text string) ([]schemas.Kind, error) {
	may := RoleWorker.kinds()
	words := make([]string, len(may))
	for i, k := range may {
		words[i] = string(k)
	}
	known := strings.Join(words, ",")
	var kinds []schemas.Kind
	for item := range strings.SplitSeq(text, ",") {
		k := schemas.Kind(strings.TrimSpace(item))
		switch {
		case k == schemas.KindPush:
			return nil, fmt.Errorf("--kinds: a push is done by the process that took it, so no worker takes %s; run `weir serve` with nats.url where git is used", k)
		case !slices.Contains(may, k):
			return nil, fmt.Errorf("--kinds: there is no kind %q; choose from %s", k, known)
		case !slices.Contains(kinds, k):
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}
