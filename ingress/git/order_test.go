package git_test

import (
	"testing"

	"weir/ingress/git"
	"weir/internal/gitwire"
	"weir/internal/task"
)

// What git or its client calls itself, and whatever else a client puts among its
// capabilities, stays out of the log.
func FuzzOrder(f *testing.F) {
	const oid = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	f.Add("refs/heads/work", oid, oid, "agent=AGWCANARY", 1)
	f.Add("refs/heads/work", gitwire.Zero, oid, "quiet", 1)
	f.Add("refs/heads/work", oid, gitwire.Zero, "side-band-64k", 2)
	f.Fuzz(func(t *testing.T, ref, from, to, capability string, n int) {
		g := task.Grant{TaskID: "t", Repo: "own", Branch: "work"}
		c := gitwire.Commands{Capabilities: []string{capability, "report-status"}}
		for range max(1, n%4) {
			c.List = append(c.List, gitwire.Command{Old: from, New: to, Ref: ref})
		}
		o := git.Order(g, c)
		if allowed := len(c.List) == 1 && ref == "refs/heads/work" && from != gitwire.Zero && to != gitwire.Zero; allowed != (o.Denied == "") {
			t.Fatalf("%+v is denied for %q", c.List, o.Denied)
		}
		for _, kept := range o.Capabilities {
			switch kept {
			case gitwire.CapAtomic, gitwire.CapOfsDelta, gitwire.CapQuiet, gitwire.CapReport, gitwire.CapSideBand:
			default:
				t.Fatalf("%q is kept", kept)
			}
		}
	})
}
