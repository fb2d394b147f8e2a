package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// dashboard is what is read of one.
type dashboard struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func readDashboard(name string) (d dashboard, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return d, err
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&d); err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// dashboards checks mistakes that Grafana does not report: panels that overlap, share an id, have
// no query, or use an unknown data source.
func dashboards(r *report, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		r.bad("%s has no dashboard", filepath.Join(dir, "grafana"))
		return
	}
	for _, name := range files {
		d, err := readDashboard(name)
		if err != nil {
			r.bad("%v", err)
			continue
		}
		before := r.wrong
		for _, wrong := range d.unmet() {
			r.bad("%s: %s", name, wrong)
		}
		if r.wrong == before {
			r.ok("%s: %d panels", name, len(d.Panels))
		}
	}
}

func (d dashboard) unmet() (wrong []string) {
	if d.UID == "" || d.Title == "" {
		wrong = append(wrong, "it has no uid, or no title")
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			wrong = append(wrong, p.Title+" has another panel's id")
		}
		ids[p.ID] = true
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
			wrong = append(wrong, p.Title+" has no question, or asks another data source than the chosen one")
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			wrong = append(wrong, p.Title+" is wider than the page")
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" && other != p.Title {
					wrong = append(wrong, p.Title+" lies over "+other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	return wrong
}
