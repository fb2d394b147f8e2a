package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfiles parses and lints as BuildKit does, and holds each image that is made to what
// this project asks of one: its own user, a health check, a command in exec form.
func dockerfiles(r *report, dir string) {
	name := filepath.Join(dir, "Dockerfile")
	data, err := os.ReadFile(name)
	if err != nil {
		r.bad("%v", err)
		return
	}
	parsed, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		r.bad("%s: %v", name, err)
		return
	}
	before := r.wrong
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, where []parser.Range) {
		line := 0
		if len(where) > 0 {
			line = where[0].Start.Line
		}
		r.bad("%s:%d: %s: %s", name, line, rule, text)
	}})
	for _, w := range parsed.Warnings {
		r.bad("%s: %s", name, w.Short)
	}
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		r.bad("%s: %v", name, err)
		return
	}
	for _, s := range stages[1:] { // the first one builds, and is no image
		for _, missing := range unmet(s) {
			r.bad("%s: stage %s: %s", name, s.Name, missing)
		}
	}
	if r.wrong == before {
		r.ok("%s: %d stages", name, len(stages))
	}
}

// unmet are the demands that an image's stage does not meet.
func unmet(s instructions.Stage) (missing []string) {
	var user, health, exec bool
	for _, c := range s.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			uid, _, _ := strings.Cut(c.User, ":")
			user = uid != "" && uid != "0" && uid != "root" && strings.Trim(uid, "0123456789") == ""
		case *instructions.HealthCheckCommand:
			health = slices.Contains(c.Health.Test, "health")
		case *instructions.EntrypointCommand:
			exec = !c.PrependShell
		}
	}
	for what, met := range map[string]bool{
		"runs as root, or as a user whose number is not said": user, "has no health check by the program itself": health,
		"has no entry point in exec form": exec,
	} {
		if !met {
			missing = append(missing, what)
		}
	}
	slices.Sort(missing)
	return missing
}
