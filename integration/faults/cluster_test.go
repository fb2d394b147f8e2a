//go:build e2e || nightly

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// times is how often something is done, in the selection and in the whole.
func (s *fixture) times(short, long int) int {
	if *all {
		return long
	}
	return short
}

// healed ends what befell the cluster, and has the load go on.
func (s *fixture) healed(ctx context.Context, what string) {
	s.must(s.heal(ctx))
	s.goOn(ctx, "the load behind "+what)
}

// leader is the index of the server that leads a group.
func (s *fixture) leader(ctx context.Context, group string) int {
	i, err := s.cluster.Leader(ctx, group)
	s.must(err)
	return i
}

// killServers kills the leader of a partition, one of its followers and the leader of the
// cluster, one after the other; each is started again when the load has gone on without it.
func killServers(ctx context.Context, s *fixture) {
	for range s.times(1, (*kills+2)/3) {
		group := schemas.LogStream(s.chance.IntN(s.layout.Partitions))
		for _, which := range []struct {
			what, group string
			shift       int
		}{{"stream leaders", group, 0}, {"followers", group, 1}, {"cluster leaders", "", 0}} {
			i := (s.leader(ctx, which.group) + which.shift) % cluster.Size
			s.cluster.Servers[i].Kill()
			s.inject(which.what+" killed", 1)
			s.goOn(ctx, "the load goes on without "+s.cluster.Servers[i].Name)
			s.revive(ctx)
		}
	}
}

// revive starts the servers that were killed.
func (s *fixture) revive(ctx context.Context) {
	for _, server := range s.cluster.Servers {
		if server.Ended() {
			s.must(server.Start(ctx))
		}
	}
	s.must(s.cluster.Healthy(ctx))
}

// killNodes kills a process of each role under load, and starts it again at last.
func killNodes(ctx context.Context, s *fixture) {
	for _, n := range s.nodes {
		if n.name != n.role.command+"0" {
			continue
		}
		n.kill()
		s.inject(n.role.command+" killed", 1)
		s.goOn(ctx, "the load without "+n.name)
	}
}

// killTwo kills two servers: nothing is accepted meanwhile, and nothing was lost.
func killTwo(ctx context.Context, s *fixture) {
	first := s.chance.IntN(cluster.Size)
	s.cluster.Servers[first].Kill()
	s.cluster.Servers[(first+1)%cluster.Size].Kill()
	s.refused(ctx)
	s.revive(ctx)
}

// killAll kills every server at once. A node that is started meanwhile waits for the log.
func killAll(ctx context.Context, s *fixture) {
	for range s.times(1, 3) {
		for _, server := range s.cluster.Servers {
			server.Kill()
		}
		s.inject("servers killed", cluster.Size)
		s.refused(ctx)
		late := s.writers()[0]
		late.kill()
		started := make(chan error, 1)
		go func() { started <- late.start() }()
		s.revive(ctx)
		s.must(<-started)
		s.goOn(ctx, "the load goes on")
	}
}

// refused asks every node while the log cannot be written: each says so, with 503 and when to
// come again, and that it is alive and not ready.
func (s *fixture) refused(ctx context.Context) {
	for _, n := range s.nodes {
		s.must(until(ctx, n.name+" to say that it is not ready", func() bool {
			status, _ := n.get(ctx, "/readyz")
			return status == http.StatusServiceUnavailable
		}))
		if status, text := n.get(ctx, "/healthz"); status != http.StatusOK {
			s.t.Fatalf("%s is not alive: %d %s", n.name, status, text)
		}
		if n.role.read && !n.role.write {
			s.must(until(ctx, n.name+" to refuse", func() bool {
				status, _ := n.get(ctx, "/v1/actions/none")
				return status == http.StatusServiceUnavailable
			}))
		}
	}
	for _, n := range s.writers() {
		o := s.crowd.Order(callers.Post)
		o.Async = true
		s.must(until(ctx, n.name+" to refuse", func() bool {
			_, err := s.crowd.Ask(ctx, n.url(), o)
			return errors.Is(err, callers.ErrAway)
		}))
		s.inject("refused", 1)
		s.crowd.Send(ctx, o) // what was refused may be on the log all the same, or not
	}
}

// lost is how long a line is down: longer than its ends take to notice.
func lost() time.Duration { return long(3*time.Second, 12*time.Second) }

// alone has something keep a partition's leader from the other servers, until they have
// another and longer.
func alone(keep func(s *fixture, i int)) func(context.Context, *fixture) {
	return func(ctx context.Context, s *fixture) {
		for range s.times(1, 3) {
			group := schemas.LogStream(s.chance.IntN(s.layout.Partitions))
			i := s.leader(ctx, group)
			keep(s, i)
			other := s.cluster.Servers[(i+1)%cluster.Size]
			s.must(until(ctx, "another leader of "+group, func() bool {
				state, err := other.State(ctx)
				name := state.Leaders[group]
				return err == nil && name != "" && name != s.cluster.Servers[i].Name
			}))
			s.inject("leaders changed", 1)
			s.must(poll.Rest(ctx, lost()))
			s.healed(ctx, "the old leader")
		}
	}
}

// cutOffNodes takes the servers away from a node, each time in another way, while it has
// calls under way.
func cutOffNodes(ctx context.Context, s *fixture) {
	for how, do := range map[string]func(*cluster.Link){
		"cut":       (*cluster.Link).Cut,
		"held":      func(l *cluster.Link) { l.Hold(cluster.Out, cluster.Back) },
		"acks held": func(l *cluster.Link) { l.Hold(cluster.Back) },
		"half open": func(l *cluster.Link) { l.Hold(cluster.Out) },
	} {
		for range s.times(1, 2) {
			s.target.Hold(s.slug()) // so that there are calls whose results cannot be written
			s.heard(ctx)
			for _, l := range s.nodes[s.chance.IntN(len(s.nodes))].lines {
				do(l)
			}
			s.target.Release()
			s.inject(how, 1)
			s.must(poll.Rest(ctx, lost()))
			s.healed(ctx, "lines that were "+how)
		}
	}
}

// leaderUnreached cuts every node's line to a partition's leader: it has the followers, and
// they have the nodes.
func leaderUnreached(ctx context.Context, s *fixture) {
	for range s.times(1, 3) {
		i := s.leader(ctx, schemas.LogStream(0))
		for _, n := range s.nodes {
			n.lines[i].Cut()
		}
		s.goOn(ctx, "the load over the followers")
		s.inject("went round", 1)
		s.must(s.heal(ctx))
	}
}

// fallSilent stops the server that all nodes are connected to. It closes no connection: the nodes must
// find out by themselves, long before a minute is over.
func fallSilent(ctx context.Context, s *fixture) {
	for _, n := range s.nodes {
		for _, l := range n.lines[1:] {
			l.Cut()
		}
	}
	s.healed(ctx, "all nodes are at one server")
	s.must(s.cluster.Servers[0].Pause())
	s.inject("fell silent", 1)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s.goOn(ctx, "the load over the other servers")
}

// badWeather delays every packet between all processes by 100 ms, half of that more or less,
// and loses one of twenty.
func badWeather(ctx context.Context, s *fixture) {
	s.cluster.Each(func(l *cluster.Link) {
		l.Set(cluster.Weather{Delay: 100 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 50})
	})
	for range s.times(1, 4) {
		s.goOn(ctx, "the load in bad weather")
		s.inject("went on", 1)
	}
}

// storm breaks every connection of every node every two seconds: nothing runs full of what
// was begun for each.
func storm(ctx context.Context, s *fixture) {
	goroutines := func() (total float64) {
		for _, n := range s.nodes {
			total += n.gauge(ctx, "go_goroutines")
		}
		return total
	}
	before := goroutines()
	for range s.times(3, 30) {
		for _, n := range s.nodes {
			for _, l := range n.lines {
				s.inject("ends of connections broken", l.Break())
			}
		}
		s.must(poll.Rest(ctx, 2*time.Second))
	}
	s.goOn(ctx, "the load behind the storm")
	s.must(until(ctx, "goroutines to end", func() bool { return goroutines() < before*1.5 }))
}

// roll ends each node with SIGTERM under load and has another take its place; in the whole
// all of them once more. Nobody is left in doubt by it.
func roll(ctx context.Context, s *fixture) {
	for range s.times(1, 2) {
		s.change(ctx, s.weir)
	}
	s.certain = true
}

// change has a program take the place of each node, one after the other.
func (s *fixture) change(ctx context.Context, to string) {
	for _, n := range s.nodes {
		s.must(n.terminate(ctx))
		n.binary = to
		s.must(n.start())
		s.must(n.ready(ctx))
		s.inject("nodes changed", 1)
		s.goOn(ctx, "the load with another "+n.name)
	}
}

// stepDown has every group of the log choose another leader, several times, under load.
func stepDown(ctx context.Context, s *fixture) {
	groups := []string{"META.LEADER.STEPDOWN", "STREAM.LEADER.STEPDOWN." + schemas.EvidenceStream}
	for _, name := range s.log.partitions() {
		groups = append(groups, "STREAM.LEADER.STEPDOWN."+name)
	}
	s.must(s.log.queues(ctx, func(stream string, info *jetstream.ConsumerInfo) error {
		groups = append(groups, "CONSUMER.LEADER.STEPDOWN."+stream+"."+info.Name)
		return nil
	}))
	for range s.times(1, 5) {
		for _, group := range groups {
			s.must(s.log.stepDown(ctx, group))
			s.inject("leaders asked to step down", 1)
		}
		s.goOn(ctx, "the load under other leaders")
	}
}

// replace has an empty server take the place of each, one after the other, while nothing is
// asked: the others give it all that it lacks.
func replace(ctx context.Context, s *fixture) {
	s.must(s.crowd.Stop())
	_, err := s.log.drained(ctx)
	s.must(err)
	for _, server := range s.cluster.Servers {
		server.Kill()
		s.must(os.RemoveAll(server.Store))
		s.revive(ctx)
		s.inject("servers replaced", 1)
	}
	s.crowd.Start(ctx)
}

// taken holds calls that are safe to repeat, has something keep a worker from its own, and waits until another
// worker makes one of them again.
func (s *fixture) taken(ctx context.Context, class, what string, keep func(n *node) error) *node {
	s.target.Hold(s.slug() + "-" + class)
	begun := map[string]bool{}
	for range 8 { // each worker has some of them
		begun[s.heard(ctx)] = true
	}
	n := s.workers()[0]
	s.must(keep(n))
	from := time.Now()
	for again := ""; !begun[again]; {
		again = s.heard(ctx)
	}
	s.t.Logf("another worker had taken a call over after %s", time.Since(from).Round(10*time.Millisecond))
	s.target.Release()
	s.inject(what, 1)
	return n
}

// standStill stops a worker in its calls until others have taken what it had, and lets it go on.
func standStill(ctx context.Context, s *fixture) {
	for _, class := range []string{callers.Get, callers.Put}[:s.times(1, 2)] {
		n := s.taken(ctx, class, "stood still", (*node).pause)
		s.must(poll.Rest(ctx, s.log.ackWait+time.Second))
		s.must(n.resume())
		s.goOn(ctx, "the load goes on")
	}
}

// dies kills a worker in its calls: another one makes those that may be made again.
func dies(ctx context.Context, s *fixture) {
	s.taken(ctx, callers.Get, "killed in its calls", func(n *node) error { n.kill(); return nil })
}

// standDeclared has a worker stop itself when a call is on the log and no byte of it has
// left, until another worker has ended the action, and then go on.
func standDeclared(ctx context.Context, s *fixture) {
	for i, n := range s.workers()[:s.times(1, len(s.workers()))] {
		name := fmt.Sprintf("%s-stop%d-", s.slug(), i)
		s.must(s.restart(ctx, n, "WEIR_FAILPOINT=declared@"+name+"=stop"))
		for k := 0; !n.reached("declared " + name); k++ { // the others take some of them
			s.crowd.Send(ctx, callers.Order{Name: name + strconv.Itoa(k), Class: callers.Post, Watch: true})
			s.must(poll.Rest(ctx, 100*time.Millisecond))
		}
		n.mark()
		s.must(until(ctx, "another worker to end what it has", func() bool { return s.crowd.Ended(n.at("declared")) }))
		s.inject("ended by another", 1)
		s.must(n.resume())
		s.goOn(ctx, "the load goes on")
	}
}

// giveAgain has every message of the row given out again, three times, under load.
func giveAgain(ctx context.Context, s *fixture) {
	for range 3 {
		n, err := s.log.again(ctx)
		s.must(err)
		s.inject("queues reset", n)
		s.goOn(ctx, "the load goes on")
	}
}
