package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/cmd/cli/archive"
	"weir/schemas"
)

func newBackup(env *Env) *cobra.Command {
	return adminFlags().command(env, &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up a running Weir with an embedded log into a file",
		Long: `Back up a running Weir into FILE: the log, the evidence, tokens, rules, budgets and the
repositories that Weir hosts. Weir goes on working. FILE must not exist. The command writes
FILE.partial, verifies its checksums, and renames it to FILE when it is complete. The file
holds the callers' requests with their credentials: keep it as you keep the data directory.
The configuration file and admin.token are not in it.

It needs a token with the scope admin of the tenant default. weir restore reads the file.`,
		Example: `  weir backup weir.backup
  weir backup /backup/weir.backup --server https://weir.example.com --token-file admin.token`,
		Args: Exactly(1, "a file to write"),
	}, func(ctx context.Context, c *api, args []string) error {
		name := args[0]
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return usageError{fmt.Errorf("%s exists already; name another file, or remove it", name)}
		}
		resp, err := c.Do(ctx, http.MethodGet, schemas.RouteBackup, nil, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return client.ErrorOf(resp)
		}
		partial := name + ".partial"
		if err := receiveBackup(c, resp.Body, partial); err != nil {
			return err
		}
		return os.Rename(partial, name)
	})
}

// receiveBackup writes a backup to a file while it verifies it, and prints what is in it.
func receiveBackup(c *api, body io.Reader, file string) (err error) {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a backup that was interrupted
		return usageError{err}
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usageError{err}
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	body = io.TeeReader(body, out)
	part := ""
	m, err := archive.Read(body, func(entry string, _ io.Reader) error {
		if now := path.Dir(entry); path.Dir(now) == "streams" && now != part {
			part = now
			fmt.Fprintln(c.Err, "back up", path.Base(part))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // what follows the manifest ends the archive
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	total := int64(0)
	for _, p := range m.Parts {
		total += p.Bytes
	}
	return c.print(m, nil, "%d parts, %d bytes, of Weir %s", len(m.Parts), total, m.Weir)
}
