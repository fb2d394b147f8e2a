// Command gen writes the JSON Schemas of the public documents and the OpenAPI
// description. It runs in the folder of the contracts, whose comments become
// the descriptions.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/schemas/gen/document"
)

// The folders, relative to the one with the contracts.
const (
	source = "."
	target = "json"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := document.All(source)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(target, name), text, 0o644); err != nil { //nolint:gosec // part of the source tree
			return err
		}
	}
	return nil
}
