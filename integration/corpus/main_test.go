//go:build e2e

// Package corpus_test holds the whole program against the corpora of hostile
// input: what a caller, DNS and an upstream can do to what leaves, and what a
// caller can do to what comes in.
package corpus_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// atOnce is how many rows run side by side: the slow ones wait, they do not work.
const atOnce = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		must(flag.Set("test.parallel", atOnce))
	}
	caught := setTrap()
	code := m.Run()
	if n := caught.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: %d connections went to the proxy of the environment\n", n)
		code = 1
	}
	os.Exit(code)
}

// setTrap points every proxy variable at a listener that counts its connections.
func setTrap() *atomic.Int64 {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	var caught atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			_ = conn.Close()
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		must(os.Setenv(name, "http://"+listener.Addr().String()))
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		must(os.Setenv(name, ""))
	}
	return &caught
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
