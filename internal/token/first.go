package token

import (
	"context"
	"os"
	"path/filepath"

	"weir/schemas"
)

// First makes the first admin token and writes it to a file that its owner
// alone can read, unless the operator's tenant has an admin already and another
// is not asked for. It reports whether it did. The file is written before the
// token is stored: a token that nobody can read would lock everybody out.
func (k *Keeper) First(ctx context.Context, file string, another bool) (made bool, err error) {
	all, err := k.List(schemas.Operator)
	if err != nil {
		return false, err
	}
	for _, t := range all {
		if !another && t.Status == active && Can(t, schemas.ScopeAdmin) {
			return false, nil
		}
	}
	t, err := k.design(schemas.Token{Tenant: schemas.Operator}, schemas.TokenRequest{Name: "first-admin", Scopes: []string{schemas.ScopeAdmin}})
	if err != nil {
		return false, err
	}
	id, s, text := mint()
	t.ID = id
	if err := writePrivate(file, text+"\n"); err != nil {
		return false, err
	}
	if err := k.put(ctx, t, s.hash(), 0); err != nil {
		return false, err
	}
	return true, nil
}

// writePrivate puts a file in place of another, whole or not at all.
func writePrivate(name, content string) (err error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".admin-*") // made with 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // where a directory cannot be synced, the rename has to do
	return d.Close()
}
