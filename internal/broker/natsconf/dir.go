package natsconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/broker/access"
	"weir/schemas"
)

// systemUser is who looks after the servers.
const systemUser = "system"

// Report says what was written.
type Report struct {
	// Dir is the directory.
	Dir string `json:"dir"`
	Plan
	// Made are files that were not there before.
	Made []string `json:"made"`
	// Removed are files that are there no more.
	Removed []string `json:"removed,omitempty"`
}

// Init writes the configuration of a cluster into a directory. What was given out is
// kept: keys, the authority, and certificates that hold for another ninety days; the
// rest is written anew from the plan and from what the roles of this version need.
func Init(dir string, p Plan, now time.Time) (Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Report{}, err
	}
	s, err := readState(dir)
	if err != nil && !errors.Is(err, ErrNone) {
		return Report{}, err
	}
	if errors.Is(err, ErrNone) {
		if err := vacant(dir); err != nil {
			return Report{}, err
		}
	}
	s.Plan = p.over(s.Plan)
	if err := s.validate(); err != nil {
		return Report{}, err
	}
	if err := intact(dir, s); err != nil {
		return Report{}, err
	}
	r := Report{Dir: dir, Plan: s.Plan}
	s.Users = map[string]string{}
	for _, role := range access.Roles() {
		if s.Users[string(role)], err = r.key(CredentialsFile(dir, string(role))); err != nil {
			return r, err
		}
	}
	if s.Users[systemUser], err = r.key(CredentialsFile(dir, systemUser)); err != nil {
		return r, err
	}
	return r, r.write(s, now)
}

// Tenant adds the accounts of a tenant's programs, or keeps those that are there.
func Tenant(dir, name string, now time.Time) (Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Report{}, err
	}
	s, err := readState(dir)
	if err != nil {
		return Report{}, err
	}
	if !schemas.ValidID(name) {
		return Report{}, fmt.Errorf("%q is not the name of a tenant: letters, digits and ._:- are, up to 128", name)
	}
	if err := intact(dir, s); err != nil {
		return Report{}, err
	}
	r, t := Report{Dir: dir, Plan: s.Plan}, tenant{Name: name}
	if t.Observer, err = r.key(ObserverFile(dir, name)); err != nil {
		return r, err
	}
	if t.Agent, err = r.key(AgentFile(dir, name)); err != nil {
		return r, err
	}
	s.Tenants = slices.DeleteFunc(s.Tenants, func(other tenant) bool { return other.Name == name })
	s.Tenants = append(s.Tenants, t)
	slices.SortFunc(s.Tenants, func(a, b tenant) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return r, r.write(s, now)
}

// Remove ends the accounts of a tenant's programs and deletes their credentials, so that
// a tenant of that name who comes later has others. The servers drop who is connected by
// them when they read their files again.
func Remove(dir, name string, now time.Time) (Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Report{}, err
	}
	s, err := readState(dir)
	if err != nil {
		return Report{}, err
	}
	var names []string
	for _, t := range s.Tenants {
		names = append(names, t.Name)
	}
	at := slices.Index(names, name)
	switch {
	case at < 0 && len(names) == 0:
		return Report{}, fmt.Errorf("tenant %q has no accounts here, and no other has", name)
	case at < 0:
		return Report{}, fmt.Errorf("tenant %q has no accounts here; those that have are %s", name, strings.Join(names, ", "))
	}
	if err := intact(dir, s); err != nil {
		return Report{}, err
	}
	s.Tenants = slices.Delete(s.Tenants, at, at+1)
	r := Report{Dir: dir, Plan: s.Plan}
	if err := r.write(s, now); err != nil {
		return r, err
	}
	for _, file := range []string{ObserverFile(dir, name), AgentFile(dir, name)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, fmt.Errorf("the accounts are gone, and the credentials are still there: %w", err)
		}
		r.Removed = append(r.Removed, file)
	}
	return r, nil
}

// CredentialsFile is where a role's credentials lie.
func CredentialsFile(dir, role string) string { return filepath.Join(dir, "credentials", role+".nk") }

// ObserverFile is where those of a tenant's observer lie.
func ObserverFile(dir, name string) string {
	return filepath.Join(dir, "credentials", "tenants", schemas.EscapeToken(name)+".observer.nk")
}

// AgentFile is where those of a tenant's agents lie.
func AgentFile(dir, name string) string {
	return filepath.Join(dir, "credentials", "tenants", schemas.EscapeToken(name)+".agent.nk")
}

// CAFile is where the authority's certificate lies, for nats.tls.ca.
func CAFile(dir string) string { return filepath.Join(dir, "ca.pem") }

// ServerDir is where one server's files lie.
func ServerDir(dir, name string) string { return filepath.Join(dir, "servers", name) }

func (r *Report) key(file string) (string, error) {
	public, made, err := publicKey(file)
	if made {
		r.Made = append(r.Made, file)
	}
	return public, err
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
		at := s.At
		if at == "" {
			at = dir
		}
		for name, text := range map[string]string{"nats.conf": serverConf(s.Plan, server, at), "accounts.conf": accounts, "ca.pem": string(ca.pem)} {
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
