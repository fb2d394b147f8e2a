package cli

import (
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/nearest"
	published "weir/schemas/json"
)

// Version is set by the linker for a release.
var Version = "dev" //nolint:gochecknoglobals // the linker sets variables alone

func newVersion(env *Env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  weir version --json", Args: Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value
					}
				}
			}
			if asJSON {
				return PrintDocument(env.Out, map[string]string{
					"version": Version, "revision": revision, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(env.Out, "weir %s %s %s/%s %s\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision)
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
			if hint := nearest.Hint(args[0], names); hint != "" {
				return usageError{fmt.Errorf("there is no schema %q%s", args[0], hint)}
			}
			return usageError{fmt.Errorf("there is no schema %q; there are: %s", args[0], strings.Join(names, ", "))}
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
