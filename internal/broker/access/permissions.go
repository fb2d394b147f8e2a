// Package access lists, as data, what each user of a NATS cluster may say and hear: the roles of
// Weir, whoever makes the log, and the observers and agents of a tenant. It knows subjects alone
// and speaks to nobody; internal/broker/natsconf makes servers' configuration of it, and
// internal/broker compares with it what the servers grant.
//
// A user may do what is listed, and nothing else. The list bounds what a role can do by mistake and
// what its stolen credentials are good for. It is not the fence, which the log itself is.
package access

import (
	"slices"
	"strings"
)

// Rule is one thing that a user may do, and what for.
type Rule struct {
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

// CoveredBy reports whether one of the patterns covers the whole of a subject, which may be a
// pattern too.
func CoveredBy(subject string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, subject) })
}

// covers reports whether everything that inner matches is matched by outer.
func covers(outer, inner string) bool {
	o, in := strings.Split(outer, "."), strings.Split(inner, ".")
	for i, token := range o {
		switch {
		case token == ">":
			return len(in) > i
		case i >= len(in) || in[i] == ">":
			return false
		case token != "*" && token != in[i]:
			return false
		}
	}
	return len(o) == len(in)
}

// Family is the listed pattern that a subject belongs to, whoever it is listed for: it names what
// was done without saying to whom. A subject that is listed nowhere is "other".
func Family(subject string, partitions int) string {
	for _, r := range Roles() {
		p := Of(r, partitions)
		for _, rules := range [][]Rule{p.Publish, p.Subscribe} {
			for _, s := range Subjects(rules) {
				if covers(s, subject) {
					return s
				}
			}
		}
	}
	return "other"
}

// Role is what a process of Weir does on the log.
type Role string

// The roles. Serve is the three behind it in one process.
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

// Inbox is the prefix of the subjects on which the role hears its answers. Each has its own, so
// that no role can listen to what another is told.
func (r Role) Inbox() string { return inboxRoot + string(r) }

// is reports whether what is listed for some roles is for this one too.
func (r Role) is(roles ...Role) bool {
	return slices.Contains(roles, r) || r == Serve && !slices.Equal(roles, []Role{Provisioner})
}
