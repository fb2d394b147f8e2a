package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// prometheusFiles has promtool check the rules, run their tests and read the
// configuration, and checks with it that the dashboard's questions can be asked.
func prometheusFiles(r *report, dir string) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		r.over("%s: promtool is not on the PATH", filepath.Join(dir, "prometheus"))
		return
	}
	at := filepath.Join(dir, "prometheus")
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(at, "rules.yaml")},
		{"test", "rules", filepath.Join(at, "rules.test.yaml")},
		{"check", "config", "--syntax-only", filepath.Join(at, "prometheus.yaml")},
	} {
		r.tell(run(tool, args...), "promtool %s", strings.Join(args, " "))
	}
	file, err := questions(filepath.Join(dir, "grafana", "weir.json"))
	if err != nil {
		r.bad("%v", err)
		return
	}
	defer os.Remove(file)
	r.tell(run(tool, "check", "rules", "--lint=none", file), "the questions of %s", filepath.Join(dir, "grafana", "weir.json"))
}

// questions writes a dashboard's expressions as rules, so that promtool parses them, and
// returns the file.
func questions(dashboard string) (string, error) {
	d, err := readDashboard(dashboard)
	if err != nil {
		return "", err
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			rules = append(rules, rule{"q:" + strings.Repeat("q", len(rules)+1), strings.ReplaceAll(t.Expr, "$__rate_interval", "1m")})
		}
	}
	doc, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}) // JSON is YAML
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "questions-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = f.Write(doc)
	return f.Name(), errors.Join(err, f.Close())
}

// run runs a tool; its error says what it printed.
func run(tool string, args ...string) error {
	out, err := exec.Command(tool, args...).CombinedOutput() //nolint:gosec // what is run is named above
	if err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}
