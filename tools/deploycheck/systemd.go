package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxExposure is the maximum score of systemd for a unit, times ten: 15 is its level for a service
// with hardly any rights.
const maxExposure = "15"

// units has systemd read the units as it would at a start, in a root directory of their
// own, and check what rights they leave.
func units(r *report, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "systemd", "*.service"))
	if err != nil || len(files) == 0 {
		r.bad("%s has no unit", filepath.Join(dir, "systemd"))
		return
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		r.over("%s: systemd-analyze is not on the PATH", filepath.Join(dir, "systemd"))
		return
	}
	root, err := os.MkdirTemp("", "units-*")
	if err != nil {
		r.bad("%v", err)
		return
	}
	defer os.RemoveAll(root)
	if err := furnish(root, files); err != nil {
		r.bad("%v", err)
		return
	}
	for _, name := range files {
		unit := strings.Replace(filepath.Base(name), "@.", "@worker.", 1)
		r.tell(run(tool, "verify", "--recursive-errors=one", "--root="+root, unit), "%s", name)
		r.tell(run(tool, "security", "--offline=true", "--threshold="+maxExposure, name), "%s: exposure", name)
	}
}

// furnish makes a root directory that has systemd's own units and the programs that
// ours start.
func furnish(root string, files []string) error {
	const etc, usr = "etc/systemd/system", "usr/lib/systemd/system"
	for _, d := range []string{etc, filepath.Dir(usr), "usr/local/bin", "bin"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(root, usr), os.DirFS("/"+usr)); err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, etc, filepath.Base(name)), text, 0o644); err != nil {
			return err
		}
	}
	for _, program := range []string{"usr/local/bin/weir", "bin/kill"} {
		if err := os.WriteFile(filepath.Join(root, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			return err
		}
	}
	return nil
}
