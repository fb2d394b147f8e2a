package jsonschema

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// Cache compiles schemas and keeps the most recently used ones. Compiling costs
// about ten validations. It is safe for concurrent use; two callers with the same
// new schema may both compile it.
type Cache struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
	bytes   int // of source
	uses    int
	cfg     CacheConfig
}

// CacheConfig bounds a Cache.
type CacheConfig struct {
	// Entries is the number of schemas kept. Default 256.
	Entries int
	// Bytes bounds the source of all kept schemas; a compiled schema takes some
	// tens of times as much. Default 2 MiB.
	Bytes int
}

type entry struct {
	schema *Schema
	bytes  int
	used   int // the value of uses at the last use
}

// NewCache returns an empty Cache.
func NewCache(cfg CacheConfig) *Cache {
	cfg.Entries, cfg.Bytes = cmp.Or(cfg.Entries, 256), cmp.Or(cfg.Bytes, 2<<20)
	return &Cache{entries: make(map[[sha256.Size]byte]*entry), cfg: cfg}
}

// Compile is the package's Compile with a cache of its successes.
func (c *Cache) Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxBytes {
		return nil, errBytes
	}
	key := sha256.Sum256(raw)
	if s := c.use(key, nil); s != nil {
		return s, nil
	}
	s, err := Compile(raw)
	if err != nil {
		return nil, err
	}
	return c.use(key, &entry{schema: s, bytes: len(raw)}), nil
}

// use returns the schema of a key. If the cache has none, it stores the fresh
// entry unless that is nil, and drops the least recently used entries.
func (c *Cache) use(key [sha256.Size]byte, fresh *entry) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := cmp.Or(c.entries[key], fresh)
	if e == nil {
		return nil
	}
	c.uses++
	e.used = c.uses
	if c.entries[key] == nil {
		c.entries[key] = e
		c.bytes += e.bytes
	}
	for len(c.entries) > 1 && (len(c.entries) > c.cfg.Entries || c.bytes > c.cfg.Bytes) {
		oldest := key
		for k, other := range c.entries {
			if other.used < c.entries[oldest].used {
				oldest = k
			}
		}
		c.bytes -= c.entries[oldest].bytes
		delete(c.entries, oldest)
	}
	return e.schema
}
