package natsconf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"weir/internal/broker/access"
	"weir/schemas"
)

// systemUser administers the servers.
const systemUser = "system"

// Report lists what was written.
type Report struct {
	// Dir is the directory.
	Dir string `json:"dir"`
	Plan
	// Made are new files.
	Made []string `json:"made"`
	// Removed are deleted files.
	Removed []string `json:"removed,omitempty"`
}

// folder is a directory as it will be: nothing is written before all of it is known, so that a
// damaged file is reported while nothing has changed.
type folder struct {
	Report
	state state
	files []file
}

type file struct {
	path string
	data []byte
	mode fs.FileMode
}

// The modes of files: secrets are their owner's alone.
const (
	secret = fs.FileMode(0o600)
	plain  = fs.FileMode(0o644)
)

// change reads the state of a directory, has it changed, and writes it with all that follows from it.
// Only the first change may find no state.
func change(dir string, now time.Time, first bool, do func(*state) error) (Report, error) {
	dir, err := filepath.Abs(dir)
	f := &folder{Report: Report{Dir: dir}}
	if err == nil {
		f.state, err = readState(dir)
	}
	if first && errors.Is(err, ErrNone) {
		err = vacant(dir)
	}
	if err == nil {
		err = do(&f.state)
	}
	for _, step := range []func() error{f.keys, func() error { return f.servers(now) }, f.write} {
		if err == nil {
			err = step()
		}
	}
	f.Plan = f.state.Plan
	return f.Report, err
}

// vacant refuses a directory without a state that already contains a file to be written. Such keys
// belong to another cluster, or to one whose plan is lost, and must not be reused.
func vacant(dir string) error {
	for _, name := range []string{"servers", "credentials", "ca.pem", "ca.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has %s in it and no %s: it is no folder of `weir nats init`, or one that was not finished; nothing was changed, so name another, or bring %s back, or move %s away",
				dir, name, planFile, planFile, name)
		}
	}
	return nil
}

// Init writes the configuration of a cluster into a directory. It keeps keys, the authority, and
// certificates that are valid for another ninety days. It writes the rest again, from the plan and
// from what the roles of this version need.
func Init(dir string, p Plan, now time.Time) (Report, error) {
	return change(dir, now, true, func(s *state) error {
		s.Plan, s.Users = p.over(s.Plan), map[string]string{}
		return s.validate()
	})
}

// Tenant adds the accounts of a tenant's programs, or keeps the existing ones.
func Tenant(dir, name string, now time.Time) (Report, error) {
	return change(dir, now, false, func(s *state) error {
		if !schemas.ValidID(name) {
			return fmt.Errorf("%q is not the name of a tenant: letters, digits and ._:- are, up to 128", name)
		}
		s.Tenants = append(slices.DeleteFunc(s.Tenants, named(name)), tenant{Name: name})
		slices.SortFunc(s.Tenants, func(a, b tenant) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
}

// Remove deletes the accounts of a tenant's programs and their credentials: a later tenant of that
// name gets new ones. The servers disconnect these users when they reload their files.
func Remove(dir, name string, now time.Time) (Report, error) {
	r, err := change(dir, now, false, func(s *state) error {
		var others []string
		for _, t := range s.Tenants {
			others = append(others, t.Name)
		}
		switch {
		case len(others) == 0:
			return fmt.Errorf("tenant %q has no accounts here, and no other has", name)
		case !slices.Contains(others, name):
			return fmt.Errorf("tenant %q has no accounts here; those that have are %s", name, strings.Join(others, ", "))
		}
		s.Tenants = slices.DeleteFunc(s.Tenants, named(name))
		return nil
	})
	if err != nil {
		return r, err
	}
	r.Removed = []string{ObserverFile(r.Dir, name), AgentFile(r.Dir, name)}
	for _, file := range r.Removed {
		if err := os.RemoveAll(file); err != nil {
			return r, fmt.Errorf("the accounts are gone, and the credentials are still there: %w", err)
		}
	}
	return r, nil
}

func named(name string) func(tenant) bool {
	return func(t tenant) bool { return t.Name == name }
}

// keys reads every key that exists, creates those of new users, and completes the state.
func (f *folder) keys() error {
	var errs []error
	key := func(file, known string) string {
		public, err := f.key(file, known)
		errs = append(errs, err)
		return public
	}
	known := f.state.Users
	f.state.Users = map[string]string{}
	for _, role := range append([]access.Role{systemUser}, access.Roles()...) {
		name := string(role)
		f.state.Users[name] = key(CredentialsFile(f.Dir, name), known[name])
	}
	for i, t := range f.state.Tenants {
		f.state.Tenants[i] = tenant{t.Name, key(ObserverFile(f.Dir, t.Name), t.Observer), key(AgentFile(f.Dir, t.Name), t.Agent)}
	}
	return errors.Join(errs...)
}

// key is the public key of the user whose seed is in a file, unless it is known. It creates a
// missing seed of a new user, and never replaces one that was given out.
func (f *folder) key(path, known string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if known != "" {
			return known, nil
		}
		var pair nkeys.KeyPair
		if pair, err = nkeys.CreateUser(); err == nil {
			raw, err = pair.Seed()
		}
		f.Made = append(f.Made, path)
		f.add(path, append(raw, '\n'), secret)
	}
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedNKey(raw)
	if err != nil {
		return "", fmt.Errorf("%s holds no seed of an nkey: bring it back, or delete it for a new one", path)
	}
	public, err := pair.PublicKey()
	return cmp.Or(known, public), err
}

// servers adds the files of the servers, and the state.
func (f *folder) servers(now time.Time) error {
	ca, err := f.authority(now)
	if err != nil {
		return err
	}
	accounts := accountsConf(f.state)
	for _, server := range f.state.Servers {
		if err := f.issue(ca, server, now); err != nil {
			return err
		}
		dir := ServerDir(f.Dir, server.Name)
		f.add(filepath.Join(dir, "nats.conf"), []byte(serverConf(f.state.Plan, server, cmp.Or(f.state.At, dir))), plain)
		f.add(filepath.Join(dir, "accounts.conf"), []byte(accounts), plain)
		f.add(filepath.Join(dir, "ca.pem"), ca.pem, plain)
	}
	raw, err := json.MarshalIndent(f.state, "", "  ")
	f.add(filepath.Join(f.Dir, planFile), append(raw, '\n'), plain)
	return err
}

func (f *folder) add(path string, data []byte, mode fs.FileMode) {
	f.files = append(f.files, file{path, data, mode})
}

// write replaces each file as a whole.
func (f *folder) write() error {
	for _, file := range f.files {
		if err := os.MkdirAll(filepath.Dir(file.path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file.path+".new", file.data, file.mode); err != nil {
			return err
		}
		if err := os.Rename(file.path+".new", file.path); err != nil {
			return err
		}
	}
	return nil
}

// CredentialsFile has a role's credentials.
func CredentialsFile(dir, role string) string { return filepath.Join(dir, "credentials", role+".nk") }

// ObserverFile holds the credentials of a tenant's observer.
func ObserverFile(dir, name string) string {
	return CredentialsFile(dir, filepath.Join("tenants", schemas.EscapeToken(name)+".observer"))
}

// AgentFile holds the credentials of a tenant's agents.
func AgentFile(dir, name string) string {
	return CredentialsFile(dir, filepath.Join("tenants", schemas.EscapeToken(name)+".agent"))
}

// CAFile has the authority's certificate, for nats.tls.ca.
func CAFile(dir string) string { return filepath.Join(dir, "ca.pem") }

// ServerDir has one server's files.
func ServerDir(dir, name string) string { return filepath.Join(dir, "servers", name) }
