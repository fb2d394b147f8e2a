package secrets

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// readSecret reads one secret beneath dir; no link leads out of there.
func readSecret(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", &fileError{reason: "the directory cannot be opened", cause: err}
	}
	defer root.Close()
	data, _, failed := readRegular(root, name, maxSize)
	switch {
	case failed == nil:
		return trimLine(string(data)), nil
	case errors.Is(failed, fs.ErrNotExist):
		return "", ErrMissing
	default:
		return "", failed.of("its file")
	}
}

// files is where a file is looked for: a directory, or everywhere.
type files interface {
	Stat(name string) (fs.FileInfo, error)
	Open(name string) (*os.File, error)
}

type system struct{}

func (system) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }
func (system) Open(name string) (*os.File, error)    { return os.Open(name) }

// readRegular reads a whole file. Its error is a reason that follows the
// file's description.
func readRegular(in files, name string, limit int64) ([]byte, fs.FileInfo, *fileError) {
	info, err := in.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, &fileError{reason: "is not there", cause: err}
	case err != nil:
		return nil, nil, &fileError{reason: "cannot be examined", cause: err}
	case !info.Mode().IsRegular(): // a pipe would hang the reader
		return nil, nil, &fileError{reason: "is not a regular one"}
	}
	f, err := in.Open(name)
	if err != nil {
		return nil, nil, &fileError{reason: "cannot be opened", cause: err}
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil { // of the open file, not of the path, which may have changed
		return nil, nil, &fileError{reason: "cannot be examined", cause: err}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, nil, &fileError{reason: "cannot be read", cause: err}
	case int64(len(data)) > limit:
		return nil, nil, &fileError{reason: "is too large"}
	}
	return data, info, nil
}

// fileError says what is wrong without the path, which may say more than a log
// should; the cause, which names it, stays out of the text.
type fileError struct {
	reason string
	cause  error
}

func (e *fileError) Error() string { return e.reason }
func (e *fileError) Unwrap() error { return e.cause }

// of names the file that a reason is about.
func (e *fileError) of(file string) *fileError {
	return &fileError{reason: file + " " + e.reason, cause: e.cause}
}
