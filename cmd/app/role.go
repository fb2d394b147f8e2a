package app

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
