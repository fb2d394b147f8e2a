package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"weir/internal/fault"
	"weir/schemas"
)

// version is the version of the tables below and of their contents. A file of another version is
// discarded and built anew; increment it with every change of either.
const version = 8

// Action has a row for each action, with the columns of action.fields. The key is when the log stored
// its acceptance, in nanoseconds: each SQL index yields a list in that order. If two actions have the
// same nanosecond, one gets the next. Status is empty until the action has ended, and then its outcome;
// state says more of the time before.
//
// Figure counts actions in slots of time. At level 0 a slot is tallySlot wide, and counts
// the actions that were accepted in it, by what they are now. At another level a slot is as
// many nanoseconds wide as the level says, and counts the actions that were accepted in it
// (status empty) and those that ended in it, with their latencies.
const tables = `
CREATE TABLE place (partition INTEGER PRIMARY KEY, seq INTEGER NOT NULL, stamp TEXT NOT NULL);
CREATE TABLE action (
	at INTEGER PRIMARY KEY, part INTEGER NOT NULL, tenant TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
	class TEXT NOT NULL, agent TEXT NOT NULL, task TEXT NOT NULL, caller TEXT NOT NULL,
	method TEXT NOT NULL, host TEXT NOT NULL, path TEXT NOT NULL, calls INTEGER NOT NULL,
	created INTEGER NOT NULL, deadline INTEGER NOT NULL, settled INTEGER NOT NULL,
	state TEXT NOT NULL, status TEXT NOT NULL, code TEXT NOT NULL, entry TEXT NOT NULL,
	attempts INTEGER NOT NULL, resolution TEXT NOT NULL, http_status INTEGER NOT NULL, model TEXT NOT NULL,
	tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, nano_usd INTEGER NOT NULL, ttft REAL NOT NULL
);
CREATE UNIQUE INDEX by_id ON action (tenant, id);
CREATE INDEX by_tenant ON action (tenant);
CREATE INDEX by_status ON action (tenant, status);
CREATE INDEX by_open   ON action (status) WHERE status = '';
CREATE INDEX by_kind   ON action (tenant, kind);
CREATE INDEX by_work   ON action (tenant, kind) WHERE status = '';
CREATE INDEX by_entry  ON action (tenant, entry) WHERE entry <> '';
CREATE INDEX by_code   ON action (tenant, code) WHERE code <> '';
CREATE INDEX by_agent  ON action (tenant, agent) WHERE agent <> '';
CREATE INDEX by_host   ON action (tenant, host) WHERE host <> '';
CREATE INDEX by_caller ON action (tenant, caller) WHERE caller <> '';
CREATE INDEX by_task   ON action (tenant, task) WHERE task <> '';
CREATE TABLE figure (
	level INTEGER NOT NULL, slot INTEGER NOT NULL, tenant TEXT NOT NULL, kind TEXT NOT NULL, agent TEXT NOT NULL,
	entry TEXT NOT NULL, code TEXT NOT NULL, status TEXT NOT NULL, n INTEGER NOT NULL, spread BLOB,
	PRIMARY KEY (level, slot, tenant, kind, agent, entry, code, status)
) WITHOUT ROWID;
`

// application marks a file as an index of Weir's, in its header.
const application = 0x57656972

// errStale says that a file does not continue this log.
var errStale = errors.New("the index is of another version, layout or log")

// errForeign says that a file is a database, and not an index's.
var errForeign = fault.New(schemas.Unavailable, "index.path names a database of something else: give the index a file of its own")

// spoiled reports whether a file that returned an error must be built anew.
func spoiled(err error) bool {
	const missing = sqlite3.SQLITE_ERROR // a table
	bad, ok := errors.AsType[*sqlite.Error](err)
	return errors.Is(err, errStale) ||
		ok && slices.Contains([]int{sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, missing}, bad.Code()&0xff)
}

// Discard removes an index's file and what SQLite put beside it. A file that is no database
// counts as a damaged index; the caller leaves a database of something else alone.
func Discard(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// store is an open file.
type store struct {
	db      *sql.DB
	parts   []*partition
	writing sync.Mutex // one writes
}

// openStore opens an index, or makes one where there is no file.
func openStore(ctx context.Context, path string, layout schemas.Layout) (_ *store, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: url.Values{
		// A power cut may lose the last batches, and nothing else.
		"_pragma": {"busy_timeout(10000)", "synchronous(NORMAL)", "cache_size(-8192)", "temp_store(MEMORY)", "journal_size_limit(16777216)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(6) // one writes
	db.SetMaxIdleConns(6)
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	var app, user, objects int
	const marks = `SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_master)
FROM pragma_application_id a, pragma_user_version u`
	if err := db.QueryRowContext(ctx, marks).Scan(&app, &user, &objects); err != nil {
		return nil, err
	}
	if app != application && (app != 0 || user != 0 || objects > 0) {
		return nil, errForeign
	}
	// The file is an index. SQLite gives the files beside it the same mode.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	want := version<<16 | layout.Partitions
	switch {
	case app == 0:
		header := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", application, want)
		_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; "+tables+header+"; COMMIT")
	case user != want:
		err = errStale
	}
	if err != nil {
		return nil, err
	}
	s := &store{db: db}
	for p := range layout.Partitions {
		of := &partition{number: p, stream: schemas.LogStream(p), busy: make(chan struct{}, 1)}
		of.stand.Store(&schemas.Freshness{})
		s.parts = append(s.parts, of)
	}
	return s, nil
}

// write runs do in a transaction.
func (s *store) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // err is the error to report
		return err
	}
	return tx.Commit()
}
