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
)

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
