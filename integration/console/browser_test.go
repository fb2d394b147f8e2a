//go:build e2e

package console_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
)

// browser is a Chromium that drive.mjs drives. Tests share it, and have pages of their own.
type browser struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex // guards in and last
	last    int
	waiting sync.Map // chan answer by its number
	ended   chan struct{}
}

type answer struct {
	N     int             `json:"n"`
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
}

// do is one operation on a page; see drive.mjs.
type do map[string]any

// errMissing is a machine that cannot run these tests.
var errMissing = errors.New("these tests drive a browser")

// chromium is where the distribution has the browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: run `make browser`, or install Chromium", errMissing)
}

func startBrowser() (*browser, error) {
	path, err := chromium()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join("node_modules", "playwright-core")); err != nil {
		return nil, fmt.Errorf("%w with npm packages that are not installed: run `make browser`", errMissing)
	}
	b := &browser{ended: make(chan struct{})}
	ready := b.next(0)
	b.cmd = exec.Command("node", "drive.mjs", path)
	b.cmd.Stderr = os.Stderr
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go b.listen(out)
	_, err = b.wait(ready)
	return b, err
}

// listen hands out the answers, until the browser has ended.
func (b *browser) listen(out io.Reader) {
	defer close(b.ended)
	for dec := json.NewDecoder(out); ; {
		var a answer
		if dec.Decode(&a) != nil {
			return
		}
		if w, ok := b.waiting.LoadAndDelete(a.N); ok {
			w.(chan answer) <- a //nolint:errcheck,forcetypeassert // next stores no other
		}
	}
}

// next is where the answer of a number will come.
func (b *browser) next(n int) chan answer {
	got := make(chan answer, 1)
	b.waiting.Store(n, got)
	return got
}

func (b *browser) wait(got chan answer) (json.RawMessage, error) {
	select {
	case a := <-got:
		if a.Error != "" {
			return nil, errors.New(a.Error)
		}
		return a.Value, nil
	case <-b.ended:
		return nil, errors.New("the browser has ended")
	}
}

// ask has one operation done. Any number may be asked at a time.
func (b *browser) ask(d do) (json.RawMessage, error) {
	b.mu.Lock()
	b.last++
	d["n"] = b.last
	got := b.next(b.last)
	line, err := json.Marshal(d)
	if err == nil {
		_, err = b.in.Write(append(line, '\n'))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.wait(got)
}

// stop closes the browser and waits for it.
func (b *browser) stop() error {
	_ = b.in.Close()
	return b.cmd.Wait()
}

// page is one window of the browser.
type page struct {
	t    *testing.T
	name string
}

// open opens a window of its own, with its own cookies.
func open(t *testing.T, name, url string, options do) *page {
	t.Helper()
	p := &page{t: t, name: t.Name() + "/" + name}
	p.do(do{"op": "open", "url": url, "options": options})
	t.Cleanup(func() {
		var wrong []string
		p.get(&wrong, do{"op": "wrong"})
		require.Empty(t, wrong, "what went wrong in the page %s", name)
		p.do(do{"op": "close"})
	})
	return p
}

func (p *page) do(d do) { p.t.Helper(); p.get(nil, d) }

func (p *page) get(into any, d do) {
	p.t.Helper()
	d["page"] = p.name
	value, err := shared.ask(d)
	require.NoError(p.t, err, "%v", d)
	if into != nil {
		require.NoError(p.t, json.Unmarshal(value, into), "%s", value)
	}
}

// click and see take what a person, or a screen reader, would name a thing by.
func (p *page) click(role, name string) {
	p.t.Helper()
	p.do(do{"op": "click", "role": role, "name": name})
}
func (p *page) see(text string) { p.t.Helper(); p.do(do{"op": "see", "text": text}) }
func (p *page) seeRole(role, name string) {
	p.t.Helper()
	p.do(do{"op": "see", "role": role, "name": name})
}
func (p *page) css(selector string) { p.t.Helper(); p.do(do{"op": "see", "css": selector}) }
func (p *page) fill(label, text string) {
	p.t.Helper()
	p.do(do{"op": "fill", "label": label, "value": text})
}

func (p *page) choose(label, value string) {
	p.t.Helper()
	p.do(do{"op": "select", "label": label, "value": value})
}
func (p *page) to(hash string) { p.t.Helper(); p.do(do{"op": "go", "hash": hash}) }

// clipboard is one for all pages of the browser.
var clipboard sync.Mutex

// copied is what a button puts into the clipboard.
func (p *page) copied(button string) (text string) {
	p.t.Helper()
	clipboard.Lock()
	defer clipboard.Unlock()
	p.evaluate(nil, `() => navigator.clipboard.writeText("")`, nil)
	p.click("button", button)
	poll.Until(p.t, func() bool {
		p.get(&text, do{"op": "clipboard"})
		return text != ""
	})
	return text
}

// hidden has a page be in the background, or in front again.
func (p *page) hidden(is bool) {
	p.t.Helper()
	p.evaluate(nil, `is => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
  document.dispatchEvent(new Event("visibilitychange"));
}`, is)
}

// evaluate runs a function in the page.
func (p *page) evaluate(into any, script string, value any) {
	p.t.Helper()
	p.get(into, do{"op": "evaluate", "script": script, "value": value})
}

// accessible has axe find nothing serious.
func (p *page) accessible() {
	p.t.Helper()
	var found []string
	p.get(&found, do{"op": "axe"})
	require.Empty(p.t, found)
}
