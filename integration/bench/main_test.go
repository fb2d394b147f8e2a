//go:build nightly

// Package bench_test measures Weir against a floor: a minimal program that makes the same
// durable writes over the same embedded server, and the same call. Direct calls, the floor
// and Weir are measured in one run, in turns, because a machine is never twice the same.
//
// Only this suite shows what Weir costs: a call beside the floor, a target far away, a tenant
// beside a flood, history, streams, a long queue, and more workers over three servers.
//
// Without flags each measurement is made in a tiny form that shows that the harness works
// and that its counts are right; no time is asserted. -full makes the real ones and prints
// them as tables in Markdown.
package bench_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/cmd/app"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

var (
	full     = flag.Bool("full", false, "measure, instead of only trying the harness")
	span     = flag.Duration("span", 4*time.Second, "with -full, how long each load lasts")
	rounds   = flag.Int("rounds", 3, "with -full, how often each load is made; the median is shown")
	callers  = flag.String("callers", "1,16,64,256", "with -full, the closed loops: callers, each with one call at a time")
	durables = flag.String("durability", "process,disk", "the durabilities")
	method   = flag.String("method", "POST", "what is called: POST is of class once, GET of class safe")
	payload  = flag.Int("payload", 0, "with -full, bytes of the body of a call that is no GET")
)

// million is how many actions a node has with -full, queued or ended.
const million = 1_000_000

// benchEnv makes the test binary a program: the floor, or Weir. They are built alike so.
const benchEnv = "BENCH_PROGRAM"

// collected is what a program prints when it has given back the memory that it does not use.
const collected = "collected"

func TestMain(m *testing.M) {
	if os.Getenv(benchEnv) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			debug.FreeOSMemory()
			fmt.Println(collected)
		}
	}()
	var code int
	if args := os.Args[1:]; args[0] == floorCommand {
		code = floorMain(ctx, args[len(args)-3:])
	} else {
		code = app.Main(ctx, args, os.Environ(), app.Streams{In: strings.NewReader(""), Out: os.Stdout, Err: os.Stderr})
	}
	stop()
	os.Exit(code)
}

// process is one of the programs, running.
type process struct {
	*program.Program

	started time.Duration // from its making until it was ready
}

// start runs a command of this binary until the test ends, and waits until it is ready.
func start(tb testing.TB, command string, args ...string) *process {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	begun := time.Now()
	p, err := program.Run(self, program.How{Command: command, Args: args, Environ: []string{benchEnv + "=1"}})
	require.NoError(tb, err)
	tb.Cleanup(p.Kill)
	return &process{p, time.Since(begun)}
}

// startWeir runs a node on a data directory.
func startWeir(tb testing.TB, dir, config, durability string) *process {
	tb.Helper()
	return start(tb, "serve", "--data", dir, "--config", config, "--durability", durability, "--log-level", "error")
}

// terminate ends processes, which finish what they have begun.
func terminate(tb testing.TB, all ...*process) {
	tb.Helper()
	for _, p := range all {
		require.NoError(tb, p.Terminate(tb.Context()), p.Said())
	}
}

// ticks is the unit of times in /proc, a second's part; Linux has no other for programs.
const ticks = 100

// cpu is the processor's time that the process has used; 0 where the system does not say, and for no process.
func (p *process) cpu() time.Duration {
	if p == nil {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	// The second field is the program's name, in parentheses, and may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks
}

// mib is an amount of memory.
type mib float64

// resident is the memory that a process holds; 0 where the system does not say.
func resident(pid int) mib {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	_, _ = fmt.Sscan(rest, &kib)
	return mib(kib / 1024)
}

// heaviest is the memory of the process that holds most.
func heaviest(all ...*process) (most mib) {
	for _, p := range all {
		most = max(most, resident(p.PID()))
	}
	return most
}

// used is the memory that is left when the process has given back what it does not use.
func (p *process) used(tb testing.TB) mib {
	tb.Helper()
	before := strings.Count(p.Printed(), collected)
	require.NoError(tb, p.Signal(syscall.SIGUSR1))
	poll.Until(tb, func() bool { return strings.Count(p.Printed(), collected) > before }, "the memory is given back")
	return resident(p.PID())
}

// weirConfig writes a configuration that lets calls to a target pass; more is appended to it.
func weirConfig(tb testing.TB, upstream, more string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	require.NoError(tb, os.WriteFile(path, fmt.Appendf(nil, `%sdeadline: {http: 24h, run: 1h}
policy:
  timeout: 10m
  allowlist:
    - {name: up, url_prefix: "%s/", methods: [GET, POST], network: loopback}
`, more, upstream), 0o600))
	return path
}

// sized is a number for the measurement, or one for its tiny form.
func sized[T any](measured, tried T) T {
	if *full {
		return measured
	}
	return tried
}

// durabilities are those to measure; the tiny forms try the last alone, for each costs
// several starts of a program.
func durabilities() []string {
	all := strings.Split(*durables, ",")
	return sized(all, all[len(all)-1:])
}

// numbers reads a list of a flag.
func numbers(tb testing.TB, list string) (all []int) {
	tb.Helper()
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		require.NoError(tb, err, "%q is not a list of numbers", list)
		all = append(all, n)
	}
	return all
}

// median is the middle of what was measured.
func median[S any, T cmp.Ordered](samples []S, of func(S) T) T {
	all := make([]T, len(samples))
	for i, s := range samples {
		all[i] = of(s)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// table is what a measurement prints, row by row as it comes; nothing in the tiny form.
type table struct{}

// newTable begins one. The title says what was measured on what.
func newTable(title string, columns ...string) table {
	var t table
	if *full {
		fmt.Printf("\n%d × %s, %s; %s\n\n", runtime.NumCPU(), runtime.GOARCH, runtime.Version(), title)
	}
	cells, rule := make([]any, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		cells[i], rule[i] = c, "---"
	}
	t.row(cells...)
	t.row(rule...)
	return t
}

// row prints a line: rates as whole numbers, times in milliseconds, shares in percent.
func (table) row(cells ...any) {
	if !*full {
		return
	}
	var b strings.Builder
	for _, c := range cells {
		switch v := c.(type) {
		case float64:
			c = fmt.Sprintf("%.0f", v)
		case time.Duration:
			c = fmt.Sprintf("%.2f ms", float64(v.Microseconds())/1000)
		case mib:
			c = fmt.Sprintf("%.0f MiB", v)
		case share:
			c = fmt.Sprintf("%.0f %%", 100*v)
		}
		fmt.Fprintf(&b, "| %v ", c)
	}
	fmt.Println(b.String() + "|")
}

// share is a part of something else that was measured.
type share float64
