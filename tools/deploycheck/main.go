// Command deploycheck checks the files under deploy/ with the libraries that the tools
// which will read them are made of, and prints what it checked and what is wrong. It
// exits 1 if anything is. It reaches no network and starts nothing but promtool and
// systemd-analyze.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// check is one kind of file.
type check struct {
	name string // what reads such a file
	run  func(r *report, dir string)
}

func main() {
	dir := "deploy"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if _, err := os.Stat(filepath.Join(dir, "Dockerfile")); err != nil {
		fmt.Fprintf(os.Stderr, "usage: deploycheck [DIR]: %v\n", err)
		os.Exit(2)
	}
	r := &report{out: os.Stdout}
	for _, c := range []check{
		{"buildkit", dockerfiles},
		{"compose-go", composeFiles},
		{"helm", charts},
		{"promtool", prometheusFiles},
		{"JSON", dashboards},
		{"systemd", units},
	} {
		r.by = c.name
		c.run(r, dir)
	}
	if r.wrong > 0 {
		fmt.Printf("%d wrong\n", r.wrong)
		os.Exit(1)
	}
	fmt.Printf("%d checked, %d not\n", r.right, r.passed)
}
