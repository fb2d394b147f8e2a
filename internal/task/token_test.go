package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/models"
	"weir/internal/task"
	"weir/schemas"
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

// child is a token made by a holder or by another child.
type child struct {
	token  task.Token
	sub    schemas.Subtoken
	parent *child // nil: the holder
	holder task.Token
}

// permits reports whether bounds permit an entry and a model.
func permits(b task.Bounds, entry, model string) bool {
	return (len(b.Entries) == 0 || slices.Contains(b.Entries, entry)) && models.May(b.Models, model)
}

// TestSubtokensPermitNoMore: whatever chain of subtokens is made and whatever happens to the task, no
// subtoken permits an entry, a model, a right or a time that its parent does not, and none outlives the
// token of the holder.
func TestSubtokensPermitNoMore(t *testing.T) {
	t.Parallel()
	entries, patterns := []string{"a", "b", "model:x"}, []string{"m", "v/*", "v/1", "v/w/*", "*"}
	names := []string{"m", "v/1", "v/2", "v/w/3", "z"}
	some := func(rt *rapid.T, of []string, label string) []string {
		return slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom(of), 0, 2).Draw(rt, label))))
	}
	rapid.Check(t, func(rt *rapid.T) {
		start := time.Unix(1e9, 0)
		until := start.Add(time.Hour)
		a := schemas.Action{Tenant: "t", ID: "a", Kind: schemas.KindTask, TokenHash: own.Hash(), Entries: some(rt, entries, "of"), Models: some(rt, patterns, "patterns")}
		s, now, n := task.Begin(a, schemas.TaskOrder{}), start, 0
		tell := func(e schemas.TaskEvent) {
			n++
			s.Apply(schemas.Event{Type: schemas.EventSignal, N: n, Time: now, Task: &e})
		}
		holder, secret := own, byte(100)
		var all []*child
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(rt, "s")) * time.Second)
			secret++
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				holder = task.New("t", "a", 0, [32]byte{secret})
				tell(schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: holder.Hash()})
			case 1:
				tell(schemas.TaskEvent{What: schemas.TaskReported, Report: &schemas.TaskReport{}})
			default:
				req := schemas.SubtokenRequest{
					Entries: some(rt, entries, "entries"), Models: some(rt, patterns, "models"),
					TTL: rapid.SampledFrom([]string{"", "1m", "20m", "9h"}).Draw(rt, "ttl"), Repo: rapid.SampledFrom([]string{"", "read", "write"}).Draw(rt, "repo"),
				}
				made := &child{holder: holder}
				var parent *schemas.Subtoken
				if i := rapid.IntRange(-1, len(all)-1).Draw(rt, "parent"); i >= 0 {
					made.parent = all[i]
					sub, ok := s.Subtoken(all[i].token, now)
					if !ok {
						continue // the service refuses it
					}
					parent = &sub
				}
				sub, err := task.Derive(req, parent, task.Of(a), now, until)
				if err != nil {
					continue
				}
				sub.N = s.Subtokens() + 1
				made.sub, made.token = sub, task.New("t", "a", 0, [32]byte{secret})
				made.token.Subtoken = sub.N
				tell(schemas.TaskEvent{What: schemas.TaskSubtoken, TokenHash: made.token.Hash(), Subtoken: &sub})
				if s.Subtokens() == sub.N { // a task that has ended takes none
					all = append(all, made)
				}
			}
		}
		for _, c := range all {
			sub, ok := s.Subtoken(c.token, now)
			require.False(rt, s.Accepts(c.token) || s.Was(c.token), "a subtoken is no holder")
			stranger := task.New("t", "a", 0, [32]byte{255})
			stranger.Subtoken = c.token.Subtoken
			require.False(rt, s.Delegates(stranger))
			unnumbered := c.token
			unnumbered.Subtoken = 0
			require.False(rt, s.Accepts(unnumbered))
			require.Equal(rt, ok, s.Accepts(c.holder) && now.Before(c.sub.ExpiresAt), "it lives as long as the holder's token and its own time")
			if !ok {
				continue
			}
			of, end, rights := task.Of(a), until, schemas.RepoWrite
			if c.parent != nil {
				above, alive := s.Subtoken(c.parent.token, now)
				require.True(rt, alive, "it does not outlive its parent")
				of, end, rights = task.Bounds{Entries: above.Entries, Models: above.Models}, above.ExpiresAt, above.Repo
			}
			require.False(rt, sub.ExpiresAt.After(end))
			require.LessOrEqual(rt, len(sub.Repo), len(rights), "none, read, write")
			for _, e := range entries {
				for _, m := range names {
					if permits(task.Bounds{Entries: sub.Entries, Models: sub.Models}, e, m) {
						require.True(rt, permits(of, e, m), "%s and %s by %+v of %+v", e, m, sub, of)
					}
				}
			}
		}
	})
}

// TestDerive: a request for more than the parent has is refused by name.
func TestDerive(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	until := now.Add(time.Hour)
	of := task.Bounds{Entries: []string{"a", "b"}, Models: []string{"v/*"}}
	sub, err := task.Derive(schemas.SubtokenRequest{Entries: []string{"a"}, TTL: "1m", Repo: schemas.RepoRead}, nil, of, now, until)
	require.NoError(t, err)
	require.Equal(t, schemas.Subtoken{Entries: []string{"a"}, Models: []string{"v/*"}, Repo: "read", ExpiresAt: now.Add(time.Minute)}, sub)
	sub.N = 7
	same, err := task.Derive(schemas.SubtokenRequest{TTL: "5h"}, &sub, of, now, until)
	require.NoError(t, err)
	require.Equal(t, schemas.Subtoken{Parent: 7, Entries: []string{"a"}, Models: []string{"v/*"}, ExpiresAt: now.Add(time.Minute)}, same)
	for _, tc := range []struct {
		req  schemas.SubtokenRequest
		says string
	}{
		{schemas.SubtokenRequest{Entries: []string{"a", "b"}}, "at /entries: the token may not use b; it may use a"},
		{schemas.SubtokenRequest{Models: []string{"*"}}, "at /models: the token may not use *; it may use v/*"},
		{schemas.SubtokenRequest{Repo: schemas.RepoWrite}, "at /repo: the token may only read"},
	} {
		_, err := task.Derive(tc.req, &sub, of, now, until)
		require.ErrorContains(t, err, tc.says)
	}
	_, err = task.Derive(schemas.SubtokenRequest{Repo: schemas.RepoRead}, &same, of, now, until)
	require.ErrorContains(t, err, "at /repo: the token has no rights")
}

// TestBudgets: a completion is charged to the budgets of the whole chain.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := task.Begin(schemas.Action{TokenHash: own.Hash()}, schemas.TaskOrder{})
	for i, sub := range []schemas.Subtoken{
		{N: 1, Budget: &schemas.TaskBudget{Requests: 1}},
		{N: 2, Parent: 1},
		{N: 3, Parent: 2, Budget: &schemas.TaskBudget{Requests: 3}},
		{N: 4},
	} {
		s.Apply(schemas.Event{Type: schemas.EventSignal, N: i + 1, Task: &schemas.TaskEvent{What: schemas.TaskSubtoken, Subtoken: &sub}})
	}
	one, three := schemas.SubtokenBudget{N: 1, TaskBudget: schemas.TaskBudget{Requests: 1}}, schemas.SubtokenBudget{N: 3, TaskBudget: schemas.TaskBudget{Requests: 3}}
	require.Equal(t, []schemas.SubtokenBudget{three, one}, s.Budgets(3))
	require.Equal(t, []schemas.SubtokenBudget{one}, s.Budgets(2))
	require.Empty(t, s.Budgets(4))
}
