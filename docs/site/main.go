// Command site writes the documentation as a site of files into a directory.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/docs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	site, err := docs.Site()
	if err != nil {
		return err
	}
	for name, data := range site {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the files are for everyone
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // the files are for everyone
			return err
		}
	}
	return nil
}
