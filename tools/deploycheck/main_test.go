package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSlipsAreFound makes each slip in a copy of the real files.
func TestSlipsAreFound(t *testing.T) {
	t.Parallel()
	for name, slip := range map[string]struct {
		check          func(*report, string)
		file, from, to string
		want           string
	}{
		"a root user":             {dockerfiles, "Dockerfile", "USER 10001:10001", "USER root", "runs as root"},
		"an instruction":          {dockerfiles, "Dockerfile", "STOPSIGNAL", "STOPSIGNALL", "unknown instruction"},
		"a name of a stage":       {dockerfiles, "Dockerfile", "AS full", "AS Full", "StageNameCasing"},
		"a key of compose":        {composeFiles, "compose.cluster.yaml", "read_only:", "readonly:", ".readonly false schema"},
		"a right of a container":  {composeFiles, "compose.cluster.yaml", "cap_drop: [ALL]", "cap_drop: [NET_RAW]", "lacks cap_drop"},
		"a member of the API":     {charts, "helm/weir/templates/_helpers.tpl", "readinessProbe:", "readynessProbe:", "unknown field"},
		"a selector of no pod":    {charts, "helm/weir/templates/network.yaml", "values: [single, worker, git]", "values: [works]", "selects no pod"},
		"a missing volume":        {charts, "helm/weir/templates/nodes.yaml", "metadata: {name: data}", "metadata: {name: date}", "lacks the volume data"},
		"a value that is missing": {charts, "helm/weir/values.yaml", "existingClaim:", "existingClam:", "existingClaim"},
		"a route to no service":   {charts, "helm/weir/templates/routes.yaml", "-egress, port", "-egres, port", "which is not there"},
		"a member of KEDA":        {charts, "helm/weir/templates/monitoring.yaml", "maxReplicaCount", "maxReplicas", "maxReplicas"},
		"two panels in a place":   {dashboards, "grafana/weir.json", `"x": 4`, `"x": 3`, "lies over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../../deploy")); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, slip.file)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), slip.from) {
				t.Fatalf("%s does not hold %s: %v", slip.file, slip.from, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), slip.from, slip.to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			r := &report{out: &out}
			slip.check(r, dir)
			if r.wrong == 0 || !strings.Contains(out.String(), slip.want) {
				t.Errorf("it is not reported: %s", out.String())
			}
		})
	}
}
