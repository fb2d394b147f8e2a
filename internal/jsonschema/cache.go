package jsonschema

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// A Cache keeps so many schemas, and so many bytes of their sources together: a compiled schema takes
// some tens of times as much.
const (
	cachedSchemas = 256
	cachedSource  = 2 << 20
)

// Cache compiles schemas and keeps them; when it is full, it forgets all. Compiling costs about ten
// validations. The zero Cache is empty. It is safe for concurrent use; two callers with the same new
// schema may both compile it.
type Cache struct {
	mu      sync.Mutex
	schemas map[[sha256.Size]byte]*Schema
	source  int
}

// Compile is the package's Compile with a cache of its successes.
func (c *Cache) Compile(raw json.RawMessage) (*Schema, error) {
	key := sha256.Sum256(raw)
	c.mu.Lock()
	s := c.schemas[key]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := Compile(raw)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil || len(c.schemas) == cachedSchemas || c.source+len(raw) > cachedSource {
		c.schemas, c.source = map[[sha256.Size]byte]*Schema{}, 0
	}
	c.schemas[key] = s
	c.source += len(raw)
	return s, nil
}
