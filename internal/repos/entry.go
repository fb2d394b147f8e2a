package repos

import (
	"encoding/json"

	"weir/schemas"
)

// version of the entries that are written.
const version = 1

// entry is a repository as it is stored.
type entry struct {
	V int `json:"v"`
	schemas.Repo
}

// keyOf names a tenant's repository in the store.
func keyOf(tenant, name string) string {
	return schemas.EscapeToken(tenant) + "." + schemas.EscapeToken(name)
}

func encode(r schemas.Repo) ([]byte, error) { return json.Marshal(entry{V: version, Repo: r}) }

// decode reads an entry, which must be the one that its key names.
func decode(rec schemas.Record) (schemas.Repo, error) {
	var e entry
	if err := json.Unmarshal(rec.Data, &e); err != nil || e.V != version || e.ID == "" || keyOf(e.Tenant, e.Name) != rec.Subject {
		return schemas.Repo{}, ErrUnreadable
	}
	return e.Repo, nil
}
