//go:build nightly

// Package bench_test measures Weir against a floor: a minimal program that makes the same
// durable writes over the same embedded server, and the same call. Direct calls, the floor
// and Weir are measured in one run, in turns, because a machine is never twice the same.
//
// Without flags each measurement is made in a tiny form that shows that the harness works
// and that its counts are right; no time is asserted. -full makes the real ones and prints
// them as tables in Markdown.
package bench_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/cmd/app"
)

var (
	full     = flag.Bool("full", false, "measure, instead of only trying the harness")
	span     = flag.Duration("span", 4*time.Second, "with -full, how long each load lasts")
	rounds   = flag.Int("rounds", 3, "with -full, how often each load is made; the median is shown")
	callers  = flag.String("callers", "1,16,64,256", "with -full, the closed loops: callers, each with one call at a time")
	rates    = flag.String("rates", "100,300,1000", "with -full, the open loops: calls a second, whatever becomes of those before")
	durables = flag.String("durability", "process,disk", "the durabilities")
	method   = flag.String("method", "POST", "what is called: POST is of class once, GET of class safe")
	payload  = flag.Int("payload", 0, "with -full, bytes of the body of a call that is no GET")
	backlog  = flag.Int("backlog", 1_000_000, "with -full, how many actions are queued before the first is done")
	history  = flag.Int("history", 1_000_000, "with -full, how many ended actions a node has")
	profile  = flag.String("profile", "", "a directory for profiles of the programs that are measured")
)

// The programs are this binary again, so that they are built alike.
const (
	roleEnv    = "BENCH_ROLE"
	profileEnv = "BENCH_PROFILE"
	weirRole   = "weir"
	floorRole  = "floor"
)

// collectedLine is what a program says when it has done what collecting is for.
const collectedLine = "collected"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	os.Exit(play(role))
}

// play is the program that a role names. It ends with its parent, whose end of the
// standard input closes then, however that came about.
func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go orphaned()
	go collecting()
	done, err := record(os.Getenv(profileEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer done()
	if role == floorRole {
		return floorMain(ctx, os.Args[1:])
	}
	return app.Main(ctx, os.Args[1:], os.Environ(), app.Streams{In: strings.NewReader(""), Out: os.Stdout, Err: os.Stderr})
}

// collecting gives back what this process holds and does not use, whenever it is asked to.
func collecting() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		debug.FreeOSMemory()
		fmt.Println(collectedLine)
	}
}

func orphaned() {
	_, _ = os.Stdin.Read(make([]byte, 1)) // nothing is ever written to it
	os.Exit(1)
}

// durabilities are those to measure; the tiny forms try the last alone, for each costs
// several starts of a program.
func durabilities() []string {
	all := strings.Split(*durables, ",")
	if !*full {
		return all[len(all)-1:]
	}
	return all
}

// numbers reads a list of a flag.
func numbers(tb testing.TB, list string) []int {
	tb.Helper()
	var all []int
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			tb.Fatalf("%q is not a list of numbers", list)
		}
		all = append(all, n)
	}
	return all
}
