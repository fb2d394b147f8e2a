package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"weir/internal/fault"
	"weir/schemas"
)

// version is that of the tables below and of what is written in them. A file of
// another one is thrown away and built anew; count it up with every change of either.
const version = 2

// The tables. Texts that repeat are numbers of the table word, and 0 is no text.
//
// An action's key is when the log took its acceptance, in nanoseconds: a list is read
// in that order whichever index leads to it. Of two that came in one nanosecond one
// has the next. Status is 0 until it has ended, and then one more than its outcome's
// place among schemas.Outcomes.
//
// Tally counts actions by when they were accepted, pace by when they were accepted
// (status 0) and by when they ended, with their latencies.
const tables = `
CREATE TABLE place (
	partition INTEGER PRIMARY KEY,
	seq       INTEGER NOT NULL,
	stamp_seq INTEGER NOT NULL,
	stamp     TEXT    NOT NULL
);
CREATE TABLE word (
	id   INTEGER PRIMARY KEY,
	text TEXT NOT NULL UNIQUE
);
CREATE TABLE action (
	at        INTEGER PRIMARY KEY,
	tenant    INTEGER NOT NULL,
	id        TEXT    NOT NULL,
	kind      INTEGER NOT NULL,
	task_type INTEGER NOT NULL,
	task      TEXT    NOT NULL,
	class     INTEGER NOT NULL,
	created   INTEGER NOT NULL,
	deadline  INTEGER NOT NULL,
	status    INTEGER NOT NULL,
	code      INTEGER NOT NULL,
	entry     INTEGER NOT NULL,
	settled   INTEGER NOT NULL,
	attempts  INTEGER NOT NULL
);
CREATE UNIQUE INDEX by_id ON action (tenant, id);
CREATE INDEX by_tenant ON action (tenant);
CREATE INDEX by_status ON action (tenant, status);
CREATE INDEX by_open   ON action (status) WHERE status = 0;
CREATE INDEX by_kind   ON action (tenant, kind);
CREATE INDEX by_work   ON action (tenant, kind) WHERE status = 0;
CREATE INDEX by_entry  ON action (tenant, entry) WHERE entry <> 0;
CREATE INDEX by_code   ON action (tenant, code) WHERE code <> 0;
CREATE INDEX by_type   ON action (tenant, task_type) WHERE task_type <> 0;
CREATE INDEX by_task   ON action (tenant, task) WHERE task <> '';
CREATE TABLE tally (
	slot      INTEGER NOT NULL,
	tenant    INTEGER NOT NULL,
	kind      INTEGER NOT NULL,
	task_type INTEGER NOT NULL,
	entry     INTEGER NOT NULL,
	code      INTEGER NOT NULL,
	status    INTEGER NOT NULL,
	n         INTEGER NOT NULL,
	PRIMARY KEY (slot, tenant, kind, task_type, entry, code, status)
) WITHOUT ROWID;
CREATE TABLE pace (
	level  INTEGER NOT NULL,
	slot   INTEGER NOT NULL,
	tenant INTEGER NOT NULL,
	kind   INTEGER NOT NULL,
	entry  INTEGER NOT NULL,
	status INTEGER NOT NULL,
	n      INTEGER NOT NULL,
	spread BLOB,
	PRIMARY KEY (level, slot, tenant, kind, entry, status)
) WITHOUT ROWID;
`

// application marks a file as an index of Weir's, in its header.
const application = 0x57656972

// errStale says that a file is none that can be gone on with.
var errStale = errors.New("the index is of another version or layout")

// errForeign says that a file is a database, and not an index's.
var errForeign = fault.New(schemas.Unavailable, "index.path names a database of something else: give the index a file of its own")

// store is an open file.
type store struct {
	db  *sql.DB
	own string // a directory to be removed with it; empty: none
}

// openStore opens the file at path, or one in a directory of its own where path is
// empty. What is no index of this version, or is damaged, is thrown away.
func openStore(ctx context.Context, path string, layout schemas.Layout) (_ *store, err error) {
	s := &store{}
	if path == "" {
		if s.own, err = os.MkdirTemp("", "weir-index-"); err != nil {
			return nil, err
		}
		path = filepath.Join(s.own, "actions.db")
	} else if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if s.db, err = openFile(ctx, path, layout); spoiled(err) {
		if err = Discard(path); err == nil {
			s.db, err = openFile(ctx, path, layout)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *store) close() {
	if s.db != nil {
		_ = s.db.Close() // what is lost is read again
	}
	if s.own != "" {
		_ = os.RemoveAll(s.own)
	}
}

// Discard removes an index's file and what stands beside it. It is only done to what was made
// to be thrown away: a file that is no database at all is taken for a damaged one, a database
// of something else is left alone.
func Discard(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// connections is how many readers and writers there are at most.
const connections = 6

// openFile opens an index, or makes one where there is no file.
func openFile(ctx context.Context, path string, layout schemas.Layout) (_ *sql.DB, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: url.Values{
		// A cut of power may take the last batches with it, and nothing else.
		"_pragma": {"busy_timeout(10000)", "synchronous(NORMAL)", "cache_size(-8192)", "temp_store(MEMORY)", "journal_size_limit(16777216)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	var app, user int
	if err := db.QueryRowContext(ctx, "SELECT a.application_id, u.user_version FROM pragma_application_id a, pragma_user_version u").Scan(&app, &user); err != nil {
		return nil, err
	}
	want := version<<16 | layout.Partitions
	if app != application {
		if err := blank(ctx, db, app, user); err != nil {
			return nil, err
		}
	}
	// From here on the file is ours. What SQLite puts beside it gets its mode.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	switch {
	case app == application && user == want:
		return db, looks(ctx, db)
	case app == application:
		return nil, errStale
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", tables, application, want))
	return db, err
}

// blank refuses a database of somebody else, which is not ours to throw away.
func blank(ctx context.Context, db *sql.DB, app, user int) error {
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if app != 0 || user != 0 || tables > 0 {
		return errForeign
	}
	return nil
}

// looks asks each table for something, so that a file which was cut short is found out
// at once. What it does not find is found when it is read, and ends in the same way.
func looks(ctx context.Context, db *sql.DB) error {
	for _, table := range []string{"place", "word", "action", "tally", "pace"} {
		rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 1") //nolint:gosec // the tables are those of the line above
		if err != nil {
			return err
		}
		rows.Next()
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}
