package natsconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/internal/broker/access"
)

// vacant refuses a directory without cluster.json in which there is something of the names
// that are written: keys of somebody else's, or of a cluster whose plan is lost, would be
// taken for this one's.
func vacant(dir string) error {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return fmt.Errorf("%s is a file: name a folder", dir)
	}
	for _, name := range []string{"servers", "credentials", "ca.pem", "ca.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has %s in it and no %s: it is no folder of `weir nats init`, or one that was not finished; nothing was changed, so name another, or bring %s back, or move %s away",
				dir, name, planFile, planFile, name)
		}
	}
	return nil
}

// intact reads every key that is there before anything is written: what is damaged is told
// of while nothing has changed.
func intact(dir string, s state) error {
	files := []string{CredentialsFile(dir, systemUser)}
	for _, role := range access.Roles() {
		files = append(files, CredentialsFile(dir, string(role)))
	}
	for _, t := range s.Tenants {
		files = append(files, ObserverFile(dir, t.Name), AgentFile(dir, t.Name))
	}
	for _, file := range files {
		if _, err := storedKey(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_, err := readAuthority(dir)
	if errors.Is(err, errNoAuthority) {
		return nil
	}
	return err
}
