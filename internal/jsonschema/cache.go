package jsonschema

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// Cache compiles schemas and keeps those that were used last. Compiling costs
// about ten validations. It is safe for concurrent use; two callers that bring
// the same new schema at once may both compile it.
type Cache struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*list.Element
	order   *list.List // of *entry, the last used in front
	bytes   int
	cfg     CacheConfig
}

// CacheConfig bounds a Cache.
type CacheConfig struct {
	// Entries is how many schemas are kept. Default 256.
	Entries int
	// Bytes is how much source they may have together; compiled, they take some
	// tens of times as much. Default 2 MiB.
	Bytes int
}

func (c CacheConfig) withDefaults() CacheConfig {
	if c.Entries == 0 {
		c.Entries = 256
	}
	if c.Bytes == 0 {
		c.Bytes = 2 << 20
	}
	return c
}

type entry struct {
	key    [sha256.Size]byte
	size   int
	schema *Schema
}

// NewCache returns an empty Cache.
func NewCache(cfg CacheConfig) *Cache {
	return &Cache{entries: make(map[[sha256.Size]byte]*list.Element), order: list.New(), cfg: cfg.withDefaults()}
}

// Compile is the package's Compile, remembered. Failures are not.
func (c *Cache) Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxBytes {
		return Compile(raw) // which says why not
	}
	key := sha256.Sum256(raw)
	if s := c.find(key); s != nil {
		return s, nil
	}
	s, err := Compile(raw)
	if err != nil {
		return nil, err
	}
	return c.keep(&entry{key: key, size: len(raw), schema: s}), nil
}

func (c *Cache) find(key [sha256.Size]byte) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(at)
	return entryOf(at).schema
}

// keep stores a schema, unless somebody else was first, and drops the oldest.
func (c *Cache) keep(e *entry) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.entries[e.key]; ok {
		return entryOf(at).schema
	}
	c.entries[e.key] = c.order.PushFront(e)
	c.bytes += e.size
	for c.order.Len() > 1 && (c.order.Len() > c.cfg.Entries || c.bytes > c.cfg.Bytes) {
		oldest := entryOf(c.order.Back())
		c.order.Remove(c.order.Back())
		delete(c.entries, oldest.key)
		c.bytes -= oldest.size
	}
	return e.schema
}

func entryOf(at *list.Element) *entry {
	e, _ := at.Value.(*entry) // the list holds nothing else
	return e
}
