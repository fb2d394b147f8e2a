// Package archive writes and reads the files of weir backup: a tar archive whose last entry is a
// manifest with the checksums of all others.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"weir/schemas"
)

const (
	manifestName = "manifest.json"
	// manifestMost bounds what a reader accepts as a manifest.
	manifestMost = 1 << 20
)

// ErrIncomplete is an archive without its end.
var ErrIncomplete = errors.New("the backup is incomplete: it ends before its manifest")

// sums are the parts of an archive, in the order of their first entries.
type sums struct {
	parts  []schemas.BackupPart
	hashes []hash.Hash
}

// entry adds an entry and returns the hash for its content. Entries of one part follow each other.
func (s *sums) entry(name string, size int64) hash.Hash {
	part := partOf(name)
	if n := len(s.parts); n == 0 || s.parts[n-1].Name != part {
		s.parts, s.hashes = append(s.parts, schemas.BackupPart{Name: part}), append(s.hashes, sha256.New())
	}
	last := len(s.parts) - 1
	s.parts[last].Entries++
	s.parts[last].Bytes += size
	fmt.Fprintf(s.hashes[last], "%s\x00%d\x00", name, size)
	return s.hashes[last]
}

func (s *sums) finish() []schemas.BackupPart {
	for i, h := range s.hashes {
		s.parts[i].SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return s.parts
}

// partOf returns "streams/NAME" for an entry of a stream, and the first folder of any other.
func partOf(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	if first != "streams" {
		return first
	}
	stream, _, _ := strings.Cut(rest, "/")
	return path.Join(first, stream)
}

// Writer writes an archive.
type Writer struct {
	tar  *tar.Writer
	sums sums
}

// NewWriter returns a Writer on w, which the caller closes.
func NewWriter(w io.Writer) *Writer { return &Writer{tar: tar.NewWriter(w)} }

// Add adds an entry with size bytes of content.
func (w *Writer) Add(name string, size int64, content io.Reader) error {
	if err := w.header(name, size); err != nil {
		return err
	}
	n, err := io.Copy(io.MultiWriter(w.tar, w.sums.entry(name, size)), io.LimitReader(content, size))
	if err == nil && n < size {
		err = fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}

func (w *Writer) header(name string, size int64) error {
	return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, Format: tar.FormatPAX})
}

// Close adds the parts to the manifest and writes it as the end of the archive.
func (w *Writer) Close(m schemas.BackupManifest) error {
	m.Parts = w.sums.finish()
	doc, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := w.header(manifestName, int64(len(doc))); err != nil {
		return err
	}
	if _, err := w.tar.Write(doc); err != nil {
		return err
	}
	return w.tar.Close()
}

// Read calls each for every entry and returns the manifest. An error of each ends it. Only after Read has
// returned without an error is the content known to be whole.
func Read(r io.Reader, each func(name string, content io.Reader) error) (m schemas.BackupManifest, err error) {
	t, s := tar.NewReader(r), sums{}
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return m, ErrIncomplete
		case err != nil:
			return m, fmt.Errorf("the file is not a backup of Weir: %w", err)
		case h.Typeflag != tar.TypeReg:
			return m, fmt.Errorf("the file is not a backup of Weir: %q is not a regular file", h.Name)
		case h.Name == manifestName:
			if m, err = manifest(t); err != nil {
				return m, err
			}
			return m, check(m, s.finish())
		}
		content := io.TeeReader(t, s.entry(h.Name, h.Size))
		if err := each(h.Name, content); err != nil {
			return m, err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return m, ErrIncomplete
		}
	}
}

func manifest(r io.Reader) (m schemas.BackupManifest, err error) {
	doc, err := io.ReadAll(io.LimitReader(r, manifestMost))
	if err != nil {
		return m, ErrIncomplete
	}
	if err := json.NewDecoder(bytes.NewReader(doc)).Decode(&m); err != nil || m.Format == 0 {
		return m, errors.New("the backup's manifest cannot be read: take the file from another copy")
	}
	if m.Format > schemas.BackupFormat {
		return m, fmt.Errorf("the backup has format %d and this Weir reads up to %d: restore it with Weir %s or newer", m.Format, schemas.BackupFormat, m.Weir)
	}
	return m, nil
}

// check compares the parts that were read with the manifest.
func check(m schemas.BackupManifest, have []schemas.BackupPart) error {
	if len(have) != len(m.Parts) {
		return fmt.Errorf("the backup is damaged: it has %d parts and its manifest names %d; take the file from another copy", len(have), len(m.Parts))
	}
	for i, want := range m.Parts {
		if have[i] != want {
			return fmt.Errorf("the backup is damaged: the checksum of %s differs from the manifest; take the file from another copy", want.Name)
		}
	}
	return nil
}
