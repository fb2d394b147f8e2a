// Package corpus_test holds the whole program against the corpora of hostile
// input: what a caller, DNS and an upstream can do to what leaves, and what a
// caller can do to what comes in.
package corpus_test

import (
	"flag"
	"os"
	"testing"
)

// atOnce is how many rows run side by side: the slow ones wait, they do not work.
const atOnce = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
