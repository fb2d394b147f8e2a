package secrets

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// readSecret reads one secret beneath dir; no link leads out of there.
func readSecret(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", &fileError{reason: "the directory cannot be opened", cause: err}
	}
	defer root.Close()
	data, _, failed := readRegular(root.OpenFile, name, maxSize)
	switch {
	case failed == nil:
		return trimLine(string(data)), nil
	case errors.Is(failed, fs.ErrNotExist):
		return "", ErrMissing
	default:
		return "", failed.of("its file")
	}
}

// readRegular reads a whole file, which os.OpenFile opens, or its like for a directory. Its error is a
// reason that follows the file's description.
func readRegular(open func(string, int, fs.FileMode) (*os.File, error), name string, limit int64) ([]byte, fs.FileInfo, *fileError) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise a pipe would hang the reader
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, &fileError{reason: "is not there", cause: err}
	case err != nil:
		return nil, nil, &fileError{reason: "cannot be opened", cause: err}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, &fileError{reason: "cannot be examined", cause: err}
	case !info.Mode().IsRegular():
		return nil, nil, &fileError{reason: "is not a regular one"}
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
