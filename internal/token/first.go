package token

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/schemas"
)

// First makes the first admin token and writes it to a file that only its owner can read, unless
// the operator's tenant has an admin already and another is not requested. An admin limited to
// entries, pools or models does not count: it cannot create an unlimited one. First reports whether
// there is a new token in the file.
//
// The token is written to a temporary file before it is stored, and replaces the old file only
// after that. So no valid token is lost, wherever a failure occurs. The next First finds a leftover
// temporary file.
func (k *Keeper) First(ctx context.Context, file string, another bool) (made bool, err error) {
	if k.stale(time.Now()) {
		return false, errUnknown(errStale)
	}
	beside := file + ".new"
	if !another && k.works(beside) {
		return true, replace(file, beside)
	}
	if !another && k.Administered() {
		return false, nil
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return false, fmt.Errorf("%s is a directory", file)
	}
	t, err := k.design(schemas.Token{Tenant: schemas.Operator}, schemas.TokenRequest{Name: "first-admin", Scopes: []string{schemas.ScopeAdmin}})
	if err != nil {
		return false, err
	}
	id, s, text := mint(prefix)
	t.ID = id
	if err := writePrivate(beside, text+"\n"); err != nil {
		return false, err
	}
	if err := k.put(ctx, &held{token: t, hash: s.hash()}, 0); err != nil {
		return false, err
	}
	return true, replace(file, beside)
}

// Administered reports whether the operator's tenant has an admin that may do everything, as far as
// this node knows.
func (k *Keeper) Administered() bool {
	now := time.Now()
	return k.count(func(h *held) bool { return h.governs(now) }) > 0
}

func (h *held) governs(now time.Time) bool {
	t := h.token
	return h.valid(false, now) && t.Tenant == schemas.Operator && len(t.Entries)+len(t.Pools)+len(t.Models) == 0 &&
		schemas.Grants(t.Scopes, schemas.ScopeAdmin)
}

// works reports whether the token in a file is that of an admin who may do everything.
func (k *Keeper) works(file string) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	h, _, err := k.find(Bearer("Bearer " + strings.TrimSuffix(string(data), "\n")))
	return err == nil && h.governs(time.Now())
}

// writePrivate writes a new file in place of another. If it is cut off, no token works in it.
func writePrivate(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	_ = os.Remove(name) // what cannot be removed cannot be created either
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close(), syncDir(name))
}

// replace durably replaces a file by another in the same directory.
func replace(name, by string) error {
	if err := os.Rename(by, name); err != nil {
		return err
	}
	return syncDir(name)
}

// syncDir makes the name of a file durable.
func syncDir(name string) error {
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	_ = d.Sync() // where a directory cannot be synced, the rename has to do
	return d.Close()
}
