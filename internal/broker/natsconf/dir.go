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

// change reads the state of a directory, has it changed, and writes it with the servers' files that
// follow from it. Where there is no state, missing says whether that is an error.
func change(dir string, now time.Time, missing func(dir string) error, do func(*Report, *state) error) (r Report, err error) {
	if r.Dir, err = filepath.Abs(dir); err != nil {
		return r, err
	}
	s, err := readState(r.Dir)
	if errors.Is(err, ErrNone) {
		err = missing(r.Dir)
	}
	if err == nil {
		err = intact(r.Dir, s)
	}
	if err == nil {
		err = do(&r, &s)
	}
	if err == nil {
		r.Plan = s.Plan
		err = r.write(s, now)
	}
	return r, err
}

func none(string) error { return ErrNone }

// Init writes the configuration of a cluster into a directory. It keeps keys, the authority, and
// certificates that are valid for another ninety days. It writes the rest again, from the plan and
// from what the roles of this version need.
func Init(dir string, p Plan, now time.Time) (Report, error) {
	return change(dir, now, vacant, func(r *Report, s *state) (err error) {
		s.Plan = p.over(s.Plan)
		if err := s.validate(); err != nil {
			return err
		}
		s.Users = map[string]string{}
		for _, name := range users() {
			if s.Users[name], err = r.key(CredentialsFile(r.Dir, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// users are those of Weir's own account, and systemUser.
func users() []string {
	all := []string{systemUser}
	for _, role := range access.Roles() {
		all = append(all, string(role))
	}
	return all
}

// Tenant adds the accounts of a tenant's programs, or keeps the existing ones.
func Tenant(dir, name string, now time.Time) (Report, error) {
	return change(dir, now, none, func(r *Report, s *state) (err error) {
		if !schemas.ValidID(name) {
			return fmt.Errorf("%q is not the name of a tenant: letters, digits and ._:- are, up to 128", name)
		}
		t := tenant{Name: name}
		if t.Observer, err = r.key(ObserverFile(r.Dir, name)); err != nil {
			return err
		}
		if t.Agent, err = r.key(AgentFile(r.Dir, name)); err != nil {
			return err
		}
		s.Tenants = append(slices.DeleteFunc(s.Tenants, func(other tenant) bool { return other.Name == name }), t)
		slices.SortFunc(s.Tenants, func(a, b tenant) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
}

// Remove deletes the accounts of a tenant's programs and their credentials: a later tenant of that
// name gets new ones. The servers disconnect these users when they reload their files.
func Remove(dir, name string, now time.Time) (Report, error) {
	r, err := change(dir, now, none, func(_ *Report, s *state) error {
		var names []string
		for _, t := range s.Tenants {
			names = append(names, t.Name)
		}
		at := slices.Index(names, name)
		switch {
		case at < 0 && len(names) == 0:
			return fmt.Errorf("tenant %q has no accounts here, and no other has", name)
		case at < 0:
			return fmt.Errorf("tenant %q has no accounts here; those that have are %s", name, strings.Join(names, ", "))
		}
		s.Tenants = slices.Delete(s.Tenants, at, at+1)
		return nil
	})
	if err != nil {
		return r, err
	}
	for _, file := range []string{ObserverFile(r.Dir, name), AgentFile(r.Dir, name)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, fmt.Errorf("the accounts are gone, and the credentials are still there: %w", err)
		}
		r.Removed = append(r.Removed, file)
	}
	return r, nil
}

// CredentialsFile has a role's credentials.
func CredentialsFile(dir, role string) string { return filepath.Join(dir, "credentials", role+".nk") }

// ObserverFile holds the credentials of a tenant's observer.
func ObserverFile(dir, name string) string {
	return filepath.Join(dir, "credentials", "tenants", schemas.EscapeToken(name)+".observer.nk")
}

// AgentFile holds the credentials of a tenant's agents.
func AgentFile(dir, name string) string {
	return filepath.Join(dir, "credentials", "tenants", schemas.EscapeToken(name)+".agent.nk")
}

// CAFile has the authority's certificate, for nats.tls.ca.
func CAFile(dir string) string { return filepath.Join(dir, "ca.pem") }

// ServerDir has one server's files.
func ServerDir(dir, name string) string { return filepath.Join(dir, "servers", name) }

// key is the public key of the user whose seed is in a file. It creates a missing seed, and never
// replaces one that was given out.
func (r *Report) key(file string) (string, error) {
	public, err := storedKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return public, err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err == nil {
		err = write(file, append(seed, '\n'), secret)
	}
	if err != nil {
		return "", err
	}
	r.Made = append(r.Made, file)
	return pair.PublicKey()
}

// write writes the state, and the servers' files that follow from it.
func (r *Report) write(s state, now time.Time) error {
	ca, err := openAuthority(r.Dir, now)
	if err != nil {
		return err
	}
	accounts := accountsConf(s)
	for _, server := range s.Servers {
		dir := ServerDir(r.Dir, server.Name)
		made, err := ca.issue(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), server, now)
		if err != nil {
			return err
		}
		if made {
			r.Made = append(r.Made, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
		}
		conf := serverConf(s.Plan, server, cmp.Or(s.At, dir))
		for name, text := range map[string]string{"nats.conf": conf, "accounts.conf": accounts, "ca.pem": string(ca.pem)} {
			if err := write(filepath.Join(dir, name), []byte(text), plain); err != nil {
				return err
			}
		}
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(r.Dir, planFile), append(raw, '\n'), plain)
}
