package access

import "slices"

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

// Inbox is the prefix of the subjects on which the role hears its answers. Each has
// its own, so that no role can listen to what another is told.
func (r Role) Inbox() string { return inboxRoot + string(r) }

// is reports whether what is listed for some roles is for this one too.
func (r Role) is(roles ...Role) bool {
	return slices.Contains(roles, r) || r == Serve && !slices.Equal(roles, []Role{Provisioner})
}
