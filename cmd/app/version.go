package app

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release.
var version = "dev"

func newVersion(env *environment) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "print the version", Args: exactly(0, "no arguments"),
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
				return json.NewEncoder(env.Out).Encode(map[string]string{
					"version": version, "revision": revision, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(env.Out, "weir %s %s %s/%s %s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
