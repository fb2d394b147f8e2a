package secrets_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/secrets"
	"weir/internal/weirtest/table"
)

// safe is an age file, its identity and the store that reads them.
type safe struct {
	key            *age.X25519Identity
	file, identity string
	store          *secrets.Store
}

func newSafe(t *testing.T) *safe {
	t.Helper()
	dir := t.TempDir()
	s := &safe{file: filepath.Join(dir, "secrets.age"), identity: filepath.Join(dir, "key.txt")}
	s.changeKey(t)
	s.store = secrets.New(secrets.Config{LookupEnv: env(nil), AgeFile: s.file, AgeIdentity: s.identity})
	return s
}

func (s *safe) changeKey(t *testing.T) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	s.key = key
	require.NoError(t, os.WriteFile(s.identity, []byte("# a comment\n"+key.String()+"\n"), 0o600))
}

func seal(t *testing.T, text string, to ...age.Recipient) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to...)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func (s *safe) put(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.file, seal(t, text, s.key.Recipient()), 0o600))
}

// age makes the files look as if they had been there for long.
func (s *safe) age(t *testing.T) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(s.file, past, past))
	require.NoError(t, os.Chtimes(s.identity, past, past))
}

func (s *safe) get(name string) (string, error) {
	value, _, err := s.store.Resolve("${secret:" + name + "}")
	return value.ExposeSecret(), err
}

func TestAgeFile(t *testing.T) {
	t.Parallel()
	s := newSafe(t)
	s.put(t, "# secrets\nPLAIN: "+canary+"\nQUOTED: \"a: b # c\\n\"\nDIGITS: '0123'\nBLOCK: |\n  one\n  two\nFOLDED: >-\n  a\n  b\nEMPTY: ''\nLIKE: ${secret:PLAIN}\n")
	for name, want := range map[string]string{"PLAIN": canary, "QUOTED": "a: b # c", "DIGITS": "0123", "BLOCK": "one\ntwo", "FOLDED": "a b", "LIKE": "${secret:PLAIN}"} {
		got, err := s.get(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	_, err := s.get("NONE")
	require.ErrorIs(t, err, secrets.ErrMissing)
	_, err = s.get("EMPTY")
	require.EqualError(t, err, "secret EMPTY: it is empty")
	require.NoError(t, s.store.Check())
	for _, text := range []string{"", "---\n", "{}"} {
		s.put(t, text)
		_, err := s.get("A")
		require.ErrorIs(t, err, secrets.ErrMissing, text)
	}
}

func TestArmoredAgeFile(t *testing.T) {
	t.Parallel()
	s := newSafe(t)
	var out bytes.Buffer
	w := armor.NewWriter(&out)
	_, err := w.Write(seal(t, "A: "+canary, s.key.Recipient()))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(s.file, out.Bytes(), 0o600))
	got, err := s.get("A")
	require.NoError(t, err)
	assert.Equal(t, canary, got)
}

func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	s := newSafe(t)
	s.put(t, "A: age\nB: age\nC: age\n")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "A"), []byte("dir"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "B"), []byte("dir"), 0o600))
	store := secrets.New(secrets.Config{Dir: dir, LookupEnv: env(map[string]string{"WEIR_SECRET_A": "env"}), AgeFile: s.file, AgeIdentity: s.identity})
	value, _, err := store.Resolve("${secret:A} ${secret:B} ${secret:C}")
	require.NoError(t, err)
	assert.Equal(t, "env dir age", value.ExposeSecret())

	require.NoError(t, os.RemoveAll(dir))
	_, _, err = store.Resolve("${secret:C}")
	require.EqualError(t, err, "secret C: the directory cannot be opened", "a broken source is not passed over")
}

func TestRotatedAgeFileIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSafe(t)
	change := map[string]func(t *testing.T, text string){
		"in place": s.put,
		"swapped": func(t *testing.T, text string) {
			t.Helper()
			next := s.file + ".new"
			require.NoError(t, os.WriteFile(next, seal(t, text, s.key.Recipient()), 0o600))
			require.NoError(t, os.Rename(next, s.file))
		},
		"with a new key": func(t *testing.T, text string) { t.Helper(); s.changeKey(t); s.put(t, text) },
	}
	n := 1000 // texts of one length: size alone does not tell them apart
	for name, put := range change {
		for _, settled := range []bool{false, true} {
			s.put(t, fmt.Sprintf("A: value%d", n))
			if settled {
				s.age(t)
			}
			got, err := s.get("A")
			require.NoError(t, err, name)
			require.Equal(t, fmt.Sprintf("value%d", n), got, name)
			n++
			put(t, fmt.Sprintf("A: value%d", n))
			got, err = s.get("A")
			require.NoError(t, err, name)
			require.Equal(t, fmt.Sprintf("value%d", n), got, name)
			n++
		}
	}
}

// TestBrokenChangeHasNoSecret: a change may have withdrawn the old secret.
func TestBrokenChangeHasNoSecret(t *testing.T) {
	t.Parallel()
	s := newSafe(t)
	s.put(t, "A: old")
	s.age(t)
	_, err := s.get("A")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.file, []byte("half a file"), 0o600))
	got, err := s.get("A")
	require.EqualError(t, err, "secret A: the age file is damaged, or none")
	require.Empty(t, got)
	s.put(t, "A: new")
	got, err = s.get("A")
	require.NoError(t, err)
	assert.Equal(t, "new", got)
}

func TestUnchangedAgeFileIsNotDecryptedAgain(t *testing.T) { //nolint:paralleltest // allocations are the process's
	s := newSafe(t)
	s.put(t, "A: "+canary)
	fresh := testing.AllocsPerRun(5, func() { _, _ = s.get("A") })
	s.age(t)
	kept := testing.AllocsPerRun(5, func() { _, _ = s.get("A") })
	assert.Less(t, kept, fresh/2, "%v allocations, %v with decryption", kept, fresh)
}

func TestAgeFileErrors(t *testing.T) {
	t.Parallel()
	other, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	write := func(t *testing.T, path, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	type testCase struct {
		spoil func(t *testing.T, s *safe)
		text  string
		err   string
	}
	table.Run(t, map[string]testCase{
		"no file":           {spoil: func(t *testing.T, s *safe) { t.Helper(); require.NoError(t, os.Remove(s.file)) }, err: "the age file is not there"},
		"no identity":       {spoil: func(t *testing.T, s *safe) { t.Helper(); require.NoError(t, os.Remove(s.identity)) }, err: "the age identity's file is not there"},
		"not an identity":   {spoil: func(t *testing.T, s *safe) { t.Helper(); write(t, s.identity, "AGE-SECRET-KEY-1"+canary) }, err: "the age identity's file holds no usable identity"},
		"an empty identity": {spoil: func(t *testing.T, s *safe) { t.Helper(); write(t, s.identity, "# nothing") }, err: "the age identity's file holds no usable identity"},
		"a large identity":  {spoil: func(t *testing.T, s *safe) { t.Helper(); write(t, s.identity, strings.Repeat("#\n", 64<<10)) }, err: "the age identity's file is too large"},
		"another's": {spoil: func(t *testing.T, s *safe) {
			t.Helper()
			write(t, s.file, string(seal(t, "A: "+canary, other.Recipient())))
		}, err: "the age file is encrypted for another identity"},
		"cut": {spoil: func(t *testing.T, s *safe) {
			t.Helper()
			whole := string(seal(t, "A: "+canary, s.key.Recipient()))
			write(t, s.file, whole[:len(whole)-1])
		}, err: "the age file is damaged, or none"},
		"plain text": {spoil: func(t *testing.T, s *safe) { t.Helper(); write(t, s.file, "A: "+canary) }, err: "the age file is damaged, or none"},
		"too large":  {spoil: func(t *testing.T, s *safe) { t.Helper(); write(t, s.file, strings.Repeat("x", 256<<10+1)) }, err: "the age file is too large"},
		"a folder":   {spoil: func(t *testing.T, s *safe) { t.Helper(); s.file = filepath.Dir(s.file) }, err: "the age file is not a regular one"},
		"a pipe": {spoil: func(t *testing.T, s *safe) {
			t.Helper()
			s.file += ".pipe"
			require.NoError(t, syscall.Mkfifo(s.file, 0o600))
		}, err: "the age file is not a regular one"},
		"not YAML":          {text: "A: \"" + canary, err: "the age file does not decrypt to YAML"},
		"not UTF-8":         {text: "A: \xff", err: "the age file does not decrypt to YAML"},
		"a list":            {text: "- " + canary, err: "the age file does not decrypt to a mapping of names to values"},
		"one text":          {text: canary, err: "the age file does not decrypt to a mapping of names to values"},
		"nested":            {text: "A:\n  B: " + canary, err: "the value of A in the age file is not text; write it in quotes"},
		"a number":          {text: "A: 12345678", err: "the value of A in the age file is not text; write it in quotes"},
		"a truth":           {text: "A: true", err: "the value of A in the age file is not text; write it in quotes"},
		"nothing":           {text: "A:", err: "the value of A in the age file is not text; write it in quotes"},
		"an anchor":         {text: "A: &x " + canary, err: "the value of A in the age file is not text; write it in quotes"},
		"twice":             {text: "A: " + canary + "\n'A': b", err: "the age file has A twice"},
		"a bad name":        {text: "B: x\ns3cr3t-canary-7f: A", err: "the age file has a name on line 2 that does not match [A-Z0-9_]{1,128}"},
		"a merge":           {text: "<<: {A: b}", err: "the age file has a name on line 1 that does not match [A-Z0-9_]{1,128}"},
		"two documents":     {text: "A: b\n---\nA: " + canary, err: "the age file holds more than one YAML document"},
		"a value too large": {text: "A: " + strings.Repeat("x", 64<<10+1), err: "the value of A in the age file is too large"},
	}, func(t *testing.T, c testCase) {
		s := newSafe(t)
		s.put(t, "A: b")
		if c.text != "" {
			s.put(t, c.text)
		}
		if c.spoil != nil {
			c.spoil(t, s)
		}
		s.store = secrets.New(secrets.Config{LookupEnv: env(nil), AgeFile: s.file, AgeIdentity: s.identity})
		_, err := s.get("A")
		require.EqualError(t, err, "secret A: "+c.err)
		require.EqualError(t, s.store.Check(), c.err)
		for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
			assert.NotContains(t, cause.Error(), canary)
		}
	})
}

// TestFormerValuesAreStillSecret: what a target learned before a rotation is
// taken out of what it says after it.
func TestFormerValuesAreStillSecret(t *testing.T) {
	t.Parallel()
	now := "v1"
	store := secrets.New(secrets.Config{LookupEnv: func(string) (string, bool) { return now, true }})
	for _, step := range []struct {
		now  string
		used []string
	}{
		{"v1", []string{"v1"}},
		{"v1", []string{"v1"}},
		{"v2", []string{"v2", "v1"}},
		{"v1", []string{"v1", "v2"}},
		{"v3", []string{"v3", "v1", "v2"}},
		{"v4", []string{"v4", "v3", "v1", "v2"}},
		{"v5", []string{"v5", "v4", "v3", "v1"}},
	} {
		now = step.now
		value, used, err := store.Resolve("x${secret:A}")
		require.NoError(t, err)
		assert.Equal(t, "x"+step.now, value.ExposeSecret())
		assert.Equal(t, step.used, reveal(used))
	}
}
