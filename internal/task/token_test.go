package task_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/task"
)

func TestTokenIsRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	child := first
	child.Subtoken = 3
	for _, want := range []task.Token{own, first, child, task.New(long, long, 1<<30, [32]byte{255, 254}), task.New("a.b:c_d-e", "0", 7, [32]byte{})} {
		got, ok := task.Parse(want.Text())
		require.True(t, ok, want.Text())
		assert.Equal(t, want, got)
		assert.True(t, task.Is(want.Text()))
		assert.Equal(t, want.Hash(), got.Hash())
	}
	assert.NotContains(t, fmt.Sprintf("%v %s", own, own), own.Text()[len(own.Text())-20:], "what prints a token does not print its secret")
}

// TestTokenHasOneSpelling: nothing else is taken for it.
func TestTokenHasOneSpelling(t *testing.T) {
	t.Parallel()
	text := first.Text()
	name, secret, _ := strings.Cut(strings.TrimPrefix(text, "weirt1_"), "_")
	for _, bad := range []string{
		"", "weirt1_", text + " ", " " + text, text + "A", text[:len(text)-1], strings.ToUpper(text), "weirt1_" + strings.ToUpper(name) + "_" + secret,
		"weir1_" + name + "_" + secret, "weirt1_" + name + secret, "weirt1__" + secret, "weirt1_" + name + "=_" + secret, text + "_x",
		"weirt1_" + name + "_" + secret[:42] + "B", strings.Repeat(text, 9), task.New("a\x00b", "c", 0, [32]byte{}).Text(), task.New("a b", "c", 0, [32]byte{}).Text(),
		task.New("a", "", 0, [32]byte{}).Text(), task.New("a", "b", -1, [32]byte{}).Text(),
	} {
		_, ok := task.Parse(bad)
		assert.False(t, ok, bad)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(own.Text())
	f.Add(next.Text() + "x")
	f.Add("weirt1_abc_def")
	f.Fuzz(func(t *testing.T, text string) {
		tok, ok := task.Parse(text)
		if ok && tok.Text() != text {
			t.Fatalf("%q is read, and is not how it is written", text)
		}
	})
}
