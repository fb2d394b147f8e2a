//go:build nightly

package faults_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/disk"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
)

// TestDisks takes the power or the room away from servers' disks: each row has a cluster of
// its own, whose disks are devices that forget what was not flushed, or are small.
func TestDisks(t *testing.T) { //nolint:paralleltest // each fault has the machine to itself
	if !*all {
		t.Log("form: none without -faults.all; see TestFaults")
		return
	}
	if why := disk.Unavailable(); why != "" {
		t.Logf("form: none here: %s", why)
		return
	}
	if !disk.Inside(t) {
		return
	}
	begin := chance(t)
	for i, r := range []struct { //nolint:paralleltest // as above
		number, title string

		fault func(context.Context, *fixture, rack)
		sync  string
		full  bool
		room  int64
	}{
		{number: "F22", title: "one server loses its power, synced always", fault: darkens(1)},
		{number: "F22", title: "all servers lose their power, synced always", fault: darkens(cluster.Size)},
		{number: "F22", title: "one server loses its power, synced every 2 minutes", fault: darkens(1), sync: "2m"},
		{number: "F26", title: "the disk of one server is full", fault: fills(1), full: true},
		{number: "F26", title: "the disks of all servers are full", fault: fills(cluster.Size), full: true},
		{number: "F26", title: "all that the servers may store is stored", fault: stuff, room: 48 << 20},
	} {
		if !chosen(r.number, r.title) {
			continue
		}
		s := newFixture(nil, row{number: r.number, title: r.title}, begin, i)
		t.Run(s.slug(), func(t *testing.T) {
			drives := newRack(t, r.full)
			s.fault = func(ctx context.Context, s *fixture) { r.fault(ctx, s, drives) }
			s.env = newEnv(t, kit{cluster: cluster.Config{Sync: r.sync, Room: r.room, StoreOf: drives.stores()}})
			s.test(t)
		})
	}
	lossIsFound(t, begin)
}

// lossIsFound: with servers that sync every two minutes, as they do unless they are told to,
// a power cut of all of them loses what was acknowledged, and the judge says so.
func lossIsFound(t *testing.T, begin uint64) {
	t.Helper()
	s := newFixture(nil, row{number: "F22", title: "all servers lose their power, synced every 2 minutes"}, begin, 99)
	if !chosen(s.number, s.title) {
		return
	}
	t.Run(s.slug(), func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		drives := newRack(t, false)
		s.env = newEnv(t, kit{cluster: cluster.Config{Sync: "2m", StoreOf: drives.stores()}})
		load := s.load
		load.Name = s.slug()
		s.crowd = s.env.crowd(load)
		s.crowd.Start(ctx)
		s.t = t
		s.goOn(ctx, "the load")
		require.NoError(t, s.crowd.Stop()) // nobody is to ask again for what is lost
		drives.dark(ctx, s, cluster.Size)
		var run history.Run
		s.crowd.Fill(&run)
		if err := s.log.fill(ctx, &run); err != nil {
			t.Logf("the loss is found: %v", err)
			s.inject("time that not even the streams were left", 1)
			s.tell(t)
			return
		}
		found := history.Check(run, history.Bounds{})
		require.NotEmpty(t, found)
		s.inject("broken promises found", len(found))
		s.tell(t)
	})
}

// rack is the servers' disks.
type rack [cluster.Size]drive

// newRack mounts three, which go with the test.
func newRack(t *testing.T, small bool) rack {
	t.Helper()
	var all rack
	for i := range all {
		d := drive{mounted: t.TempDir()}
		if small { // one that is soon full
			require.NoError(t, unix.Mount("tmpfs", d.mounted, "tmpfs", 0, "size=96m"))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(d.mounted, unix.MNT_DETACH)) })
		} else { // one that forgets
			var err error
			d.Drive, err = disk.NewDrive(d.mounted, driveSize)
			require.NoError(t, err)
			d.mounted = d.Dir
			t.Cleanup(func() { require.NoError(t, d.Unmount()) })
		}
		all[i] = d
	}
	return all
}

// stores are the folders on them.
func (r rack) stores() map[int]string {
	all := map[int]string{}
	for i, d := range r {
		all[i] = filepath.Join(d.mounted, "store")
	}
	return all
}

// drive is a server's disk.
type drive struct {
	*disk.Drive // nil: it is a small one

	mounted string
}

const driveSize = 256 << 20

// ballast is the file that leaves no room on a small one.
func (d drive) ballast() string { return filepath.Join(d.mounted, "ballast") }

// darkens takes the power from so many servers, in the middle of what a disk writes, several
// times.
func darkens(servers int) func(context.Context, *fixture, rack) {
	return func(ctx context.Context, s *fixture, drives rack) {
		for range 4 {
			drives.dark(ctx, s, servers)
			s.goOn(ctx, "the load with the power back")
		}
	}
}

// dark takes the power from so many servers at once and gives it back.
func (r rack) dark(ctx context.Context, s *fixture, servers int) {
	first := s.chance.IntN(cluster.Size)
	keep := []float64{0, 0.5, 0.9}[s.chance.IntN(3)]
	var off []int
	for k := range servers {
		off = append(off, (first+k)%cluster.Size)
	}
	after := map[int]*disk.Device{}
	for _, i := range off { // the disks go first: what is told from here on was synced before, or is a lie
		device, forgot := r[i].Cut(s.chance, keep)
		after[i] = device
		s.inject("sectors forgotten", forgot)
	}
	s.inject("servers without power", len(off))
	s.must(poll.Rest(ctx, 20*time.Millisecond))
	for _, i := range off {
		s.cluster.Servers[i].Kill()
	}
	for _, i := range off {
		s.must(r[i].Unmount())
		r[i].Device = after[i]
		s.must(r[i].Mount())
	}
	s.revive(ctx)
}

// fills leaves no room on the disks of so many servers. Where it is one, all goes on; where
// it is all, nothing is accepted until there is room again.
func fills(servers int) func(context.Context, *fixture, rack) {
	return func(ctx context.Context, s *fixture, drives rack) {
		for i := range servers {
			s.must(disk.Fill(drives[i].ballast(), 0))
			s.inject("disks filled", 1)
		}
		if servers == cluster.Size {
			refused := s.refusing(ctx)
			s.inject("refused", refused)
		} else {
			s.goOn(ctx, "the load with one disk full")
		}
		for i := range servers {
			s.must(os.Remove(drives[i].ballast()))
			s.cluster.Servers[i].Kill() // one that had no room does not go on by itself
		}
		s.revive(ctx)
	}
}

// refusing waits until every node refuses new actions.
func (s *fixture) refusing(ctx context.Context) int {
	away := s.crowd.Counts().Away
	s.must(s.crowd.Await(ctx, "refusals", func(c callers.Counts) bool { return c.Away >= away+20 }))
	return s.crowd.Counts().Away - away
}

// stuff stores all that the servers may, in a stream of its own: they refuse what comes
// then, and nothing that was accepted is lost.
func stuff(ctx context.Context, s *fixture, _ rack) {
	const name = "BALLAST"
	_, err := s.log.JS.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{"ballast"}, Replicas: cluster.Size, Storage: jetstream.FileStorage})
	s.must(err)
	stored := 0
	for chunk := bytes.Repeat([]byte("x"), 512<<10); ; stored++ {
		if _, err := s.log.JS.Publish(ctx, "ballast", chunk); err != nil {
			if ctx.Err() != nil {
				s.t.Fatalf("the servers take all that comes: %v", err)
			}
			break
		}
	}
	s.inject("stored", stored)
	refused := s.refusing(ctx)
	s.inject("refused", refused)
	s.must(s.log.JS.DeleteStream(ctx, name))
}
