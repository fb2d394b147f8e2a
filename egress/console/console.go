// Package console serves the console: pages that show actions and act on them through the public
// routes. They are built from ui and embedded; nothing else is fetched.
package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Index is the page itself.
const Index = "index.html"

//go:embed dist
var dist embed.FS

// policy lets a page load its own files and connect to this node only; it may not be framed, and no
// inline script runs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Console serves the files.
type Console struct {
	files func() map[string]file
}

type file struct {
	media          string
	plain, gzipped []byte
}

// New returns the console.
func New() *Console { return Serving(linked) }

// Serving returns a server of other files. They are read and compressed at the first request.
func Serving(read func() map[string][]byte) *Console {
	return &Console{files: sync.OnceValue(func() map[string]file {
		files := map[string]file{}
		for name, body := range read() {
			files[name] = file{media: media(name), plain: body, gzipped: compress(body)}
		}
		return files
	})}
}

// linked returns the embedded files; that cannot fail.
func linked() map[string][]byte {
	files := map[string][]byte{}
	_ = fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[strings.TrimPrefix(name, "dist/")], err = dist.ReadFile(name)
		return err
	})
	return files
}

// media does not ask the machine, which may have words of its own for it.
func media(name string) string {
	return cmp.Or(map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
		".svg": "image/svg+xml", ".png": "image/png",
	}[path.Ext(name)], "application/octet-stream")
}

func compress(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails on an unknown level only
	_, _ = w.Write(body)                                  // to a buffer: cannot fail
	_ = w.Close()
	return b.Bytes()
}

// Serve answers with a file; ok is false where there is none, and then nothing was written.
// The names of assets change with their content, so browsers may keep them.
func (c *Console) Serve(w http.ResponseWriter, r *http.Request, name string) (ok bool) {
	f, ok := c.files()[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if gzips(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone if this fails
	}
	return true
}

// gzips reports whether a client takes gzip, by name.
func gzips(accept string) bool {
	for item := range strings.SplitSeq(accept, ",") {
		coding, weight, weighed := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q := strings.TrimPrefix(strings.TrimSpace(weight), "q=")
			return !weighed || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
