//go:build nightly

package bench_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// stage is a part of a long queue's life.
type stage struct {
	name                    string
	rate                    float64
	server, ingress, worker float64 // MiB at its end
}

// drainers are the workers that work a long queue off, and drainSlots their slots: enough to
// leave nothing idle, and few beside a tenth of what they do.
const (
	drainers   = 2
	drainSlots = 4
)

// measureQueue queues actions while there is no worker, and has workers do the first of
// them and the last, or all. Neither may be slower for what is queued.
func measureQueue(t *testing.T, g *ground) {
	t.Helper()
	n := sized(*queued, 200) / (deciles * g.partitions) * (deciles * g.partitions)
	l := g.target.lot(n, 0)
	stages := make([]stage, 0, 3*deciles)
	for i := range deciles {
		s := g.put(t, l, n/deciles)
		stages = append(stages, stage{name: "queued, " + inTurn(i, deciles), rate: s.rate(), server: g.heaviest(), ingress: g.ingress.resident()})
		say("%d of %d queued, %.0f/s", n/deciles*(i+1), n, s.rate())
	}
	part := sized(*drained, 0) / (deciles * g.partitions) * (deciles * g.partitions)
	if part == 0 || 2*part > n {
		crew, done := g.workOff(t, l, n, "done")
		stages = append(stages, done...)
		settledBy(t, crew, n)
		dismiss(t, crew)
		l.whole(t)
	} else {
		ends := g.ends(t)
		crew, done := g.workOff(t, l, part, "first done")
		stages = append(stages, done...)
		dismiss(t, crew)
		first := int(l.answered.Load()) // they have finished what they had begun
		l.hold()
		g.skip(t, ends, part/g.partitions)
		crew, done = g.workOff(t, l, part, "last done")
		stages = append(stages, done...)
		settledBy(t, crew, part)
		dismiss(t, crew)
		l.once(t, first+part)
	}
	showStages(g, n, part, stages)
}

// workOff starts workers on a lot that is held, opens it when they are at work, and measures
// how fast they do so many actions.
func (g *ground) workOff(t *testing.T, l *lot, n int, name string) (crew []*process, all []stage) {
	t.Helper()
	before := l.waiting.Load()
	crew = g.crew(t, drainers, drainSlots)
	poll.Until(t, func() bool { return l.waiting.Load() > before }, "they work")
	m := l.mark(n/deciles, deciles)
	begun := time.Now()
	l.open()
	for i := range deciles {
		at := l.reached(t, m)
		s := stage{
			name: name + ", " + inTurn(i, deciles), rate: float64(n/deciles) / at.Sub(begun).Seconds(),
			server: g.heaviest(), ingress: g.ingress.resident(), worker: heaviest(crew),
		}
		say("%s: %.0f/s", s.name, s.rate)
		all, begun = append(all, s), at
	}
	return crew, all
}

// ends are the sequences of the newest record of each partition.
func (g *ground) ends(t *testing.T) []uint64 {
	t.Helper()
	all := make([]uint64, g.partitions)
	g.log(t, func(js jetstream.JetStream) {
		for p := range all {
			s, err := js.Stream(t.Context(), schemas.LogStream(p))
			require.NoError(t, err)
			all[p] = s.CachedInfo().State.LastSeq
		}
	})
	return all
}

// skip has each queue go on with the last so many of what lay there when nothing but new
// actions did: each of those is one record.
func (g *ground) skip(t *testing.T, ends []uint64, left int) {
	t.Helper()
	g.log(t, func(js jetstream.JetStream) {
		for p, end := range ends {
			_, err := js.ResetConsumerToSequence(t.Context(), schemas.LogStream(p), string(schemas.KindHTTP), end-uint64(left)+1)
			require.NoError(t, err)
		}
	})
}

func (g *ground) log(t *testing.T, do func(jetstream.JetStream)) {
	t.Helper()
	nc, err := nats.Connect(g.cluster.Direct())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	do(js)
}

func showStages(g *ground, n, part int, stages []stage) {
	done := "all are worked off"
	if part > 0 {
		done = "the first and the last " + thousands(part) + " are worked off, what lies between is passed over"
	}
	tell("\n%s; three NATS servers that sync each write, log R%d in %d partitions, %s actions; %d callers queue them by one ingress, then %s by %d workers\n",
		machine(), g.copies, g.partitions, thousands(n), queuers, done, drainers)
	tell("| tenth | a second | largest server | ingress | largest worker |")
	tell("|---|---|---|---|---|")
	for _, s := range stages {
		worker := ""
		if s.worker > 0 {
			worker = mib(s.worker)
		}
		tell("| %s | %.0f | %s | %s | %s |", s.name, s.rate, mib(s.server), mib(s.ingress), worker)
	}
	tell("")
}
