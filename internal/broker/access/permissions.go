// Package access lists, as data, the subjects that each user of a NATS cluster may publish and
// subscribe to: the roles of Weir, the user that creates the log, and the observers and agents of a
// tenant. It only knows subjects and opens no connection. internal/broker/natsconf generates server
// configuration from it, and internal/broker compares it with what the servers grant.
//
// A user may do only what is listed. The list limits mistakes of a role and the use of stolen
// credentials. It does not replace the fence, which the log enforces.
package access

import (
	"slices"
	"strings"
)

// Rule is one thing that a user may do, and what for.
type Rule struct {
	roles    []Role // whose it is, on Weir's own account
	Why      string
	Subjects []string
}

// Permissions are all that a user may do.
type Permissions struct {
	Publish, Subscribe []Rule
	// Replies lets the user answer each request that it has received, once.
	Replies bool
}

// Subjects are those of all rules, each once, in order.
func Subjects(rules []Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.Subjects...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// CoveredBy reports whether one of the patterns covers a whole subject, which may be a pattern too.
func CoveredBy(subject string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Covers(p, subject) })
}

// Covers reports whether everything that inner matches is matched by outer: '*' stands for one
// token, a last '>' for one or more.
func Covers(outer, inner string) bool {
	for {
		o, outerRest, outerMore := strings.Cut(outer, ".")
		in, innerRest, innerMore := strings.Cut(inner, ".")
		switch {
		case o == ">" && !outerMore:
			return in != ""
		case o != in && (o != "*" || in == "" || in == ">"):
			return false
		case !outerMore || !innerMore:
			return outerMore == innerMore
		}
		outer, inner = outerRest, innerRest
	}
}

// Family is the listed pattern that a subject belongs to, for any user. It names the operation
// without its target. An unlisted subject is "other".
func Family(subject string, partitions int) string {
	for _, r := range Roles() {
		for _, s := range slices.Concat(Subjects(publishes(r, partitions)), Subjects(subscribes(r))) {
			if Covers(s, subject) {
				return s
			}
		}
	}
	return "other"
}

// Role is what a process of Weir does on the log.
type Role string

// The roles. Serve combines the next three in one process.
const (
	Serve       Role = "serve"
	Ingress     Role = "ingress"
	Worker      Role = "worker"
	Egress      Role = "egress"
	Provisioner Role = "provisioner" // makes streams, queues and buckets, and does no work
)

// Roles lists every role.
func Roles() []Role { return []Role{Provisioner, Ingress, Worker, Egress, Serve} }

// Works reports whether the role takes work from the queues.
func (r Role) Works() bool { return r == Serve || r == Worker }

// Inbox is the prefix of the role's reply subjects. Each role has its own, so that no role can read
// the replies to another.
func (r Role) Inbox() string { return inboxRoot + string(r) }

// is reports whether what is listed for some roles is for this one too.
func (r Role) is(roles ...Role) bool {
	return slices.Contains(roles, r) || r == Serve && slices.ContainsFunc(roles, func(other Role) bool { return other != Provisioner })
}
