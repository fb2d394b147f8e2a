package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeFiles loads each as docker compose does, against its schema, and holds the
// services to what this project asks: no rights, a root that is only read, an end to the log.
func composeFiles(r *report, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "compose*.yaml"))
	if err != nil || len(files) == 0 {
		r.bad("%s has no compose file", dir)
		return
	}
	for _, name := range files {
		project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
			WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: name}}, Environment: types.Mapping{},
		}, func(o *loader.Options) {
			o.SetProjectName("weir", true)
			o.Profiles = []string{"*"}
		})
		if err != nil {
			r.bad("%s: %v", name, err)
			continue
		}
		before := r.wrong
		for _, s := range project.Services {
			privileges(r, name, s)
		}
		if r.wrong == before {
			r.ok("%s: %d services", name, len(project.Services))
		}
	}
}

func privileges(r *report, file string, s types.ServiceConfig) {
	for what, met := range map[string]bool{
		"cap_drop: [ALL]":                     len(s.CapDrop) == 1 && s.CapDrop[0] == "ALL",
		"read_only: true":                     s.ReadOnly,
		"security_opt no-new-privileges":      strings.Contains(strings.Join(s.SecurityOpt, " "), "no-new-privileges"),
		"an image with a tag, or one of ours": s.Build != nil || strings.Contains(s.Image, ":"),
	} {
		if !met {
			r.bad("%s: service %s lacks %s", file, s.Name, what)
		}
	}
}
