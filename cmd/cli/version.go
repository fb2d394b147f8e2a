package cli

import (
	"cmp"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/nearest"
	published "weir/schemas/json"
)

// The linker sets these for a release, where the build does not see the repository:
// -ldflags "-X weir/cmd/cli.release=v1.2.3 -X weir/cmd/cli.revision=COMMIT".
var release, revision string //nolint:gochecknoglobals // the linker can only set variables

// Version names the release, checkout or module that the program was built from.
var Version = Built().Version //nolint:gochecknoglobals // constant after start

// Build describes how the program was built.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Built returns how the program was built. The version is a tag, or a pseudo-version that names
// the commit; +dirty stands for changes that were not committed. It is "unknown" for a build
// without version control.
func Built() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return built(info, release, revision)
}

func built(info *debug.BuildInfo, release, revision string) Build {
	b := Build{release, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Revision == "" {
			b.Revision = s.Value
		}
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}

func newVersion(env *Env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  weir version --json", Args: Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			b := Built()
			if asJSON {
				return PrintDocument(env.Out, b)
			}
			revision := b.Revision
			if short := revision[:min(8, len(revision))]; short != "" && strings.Contains(b.Version, short) {
				revision = "" // a version without a tag names the commit
			}
			_, err := fmt.Fprintln(env.Out, joined(" ", "weir", b.Version, b.Go, b.Platform, revision))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newSchema(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print a JSON Schema or the OpenAPI document",
		Long:  "Print the JSON Schema of this name, or the OpenAPI document; without a name, list the names.",
		Example: `  weir schema
  weir schema openapi > openapi.json`,
		Args: between(0, 1, "schema takes one name; `weir schema` lists the names"),
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := schemaNames()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for _, n := range names {
					fmt.Fprintln(env.Out, n)
				}
				return nil
			}
			for _, suffix := range []string{".json", ""} {
				if data, err := published.Files.ReadFile(args[0] + suffix); err == nil {
					_, err = env.Out.Write(data)
					return err
				}
			}
			return usageError{fmt.Errorf("there is no schema %q%s", args[0], cmp.Or(nearest.Hint(args[0], names), "; there are: "+strings.Join(names, ", ")))}
		},
	}
}

func schemaNames() ([]string, error) {
	entries, err := fs.ReadDir(published.Files, ".")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".json"), ".schema"))
	}
	return names, nil
}
