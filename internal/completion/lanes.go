package completion

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// This file finds the texts that arrive in pieces over several typed events. All other strings of
// an event are whole, and the caller scrubs each event as a document: a secret cannot be split
// between two events that end a text, because each of them repeats that whole text. Two parts or
// blocks are two texts. A secret that spans two of them is not found, like one that spans two
// choices.

// piece notes a piece of a text of an item or a block.
func (t *Texts) piece(of path, v gjson.Result) {
	if v.Type == gjson.String && !hollow(v) && !t.over {
		t.add(v, t.number(of), of.of)
	}
}

// end reports that a text has ended.
func (t *Texts) end(text path) {
	if n, ok := t.paths[text]; ok {
		t.found.Ended = append(t.found.Ended, n)
	}
}

// group is the number of an item or a block: by its id where it has no index.
func (t *Texts) group(index int, id string) int {
	return t.number(path{element: true, index: index, name: id})
}

// item is the number of the item of an event of DialectResponses: by its index, or by its id.
func (t *Texts) item(event gjson.Result) int {
	n, id := itemOf(event)
	known, ok := t.indexes[id]
	switch {
	case n >= 0 && !ok && id != "" && len(t.indexes) < maxPaths:
		t.indexes[strings.Clone(id)] = n
		t.names += len(id)
	case n >= 0:
	case ok:
		n = known
	default:
		return t.group(-1, id)
	}
	return t.group(n, "")
}

// likelihoods is the name of the list that spells a text again by its tokens.
const likelihoods = "logprobs"

// response finds the texts of an event of DialectResponses. The deltas of an unknown type have a
// text of their own.
func (t *Texts) response(event gjson.Result) {
	group := t.item(event)
	p, base, what := partOf(event.Get("type").Str, event)
	key := path{of: group, index: p.index, name: p.list}
	if p == (part{}) || p.name == "" && what == "delta" {
		key.index, key.name = int(event.Get("content_index").Int()), base
	}
	if what == "delta" {
		t.piece(key, event.Get("delta"))
		if list := event.Get(likelihoods); !hollow(list) {
			t.tokens(list, key.spelled())
		}
		return
	}
	t.spelled(event)
	switch element := p.list != "" && p.name == ""; {
	case base == "output_item" && what == "added":
		item := object(event.Get("item"))
		for _, name := range texts() {
			t.piece(path{of: group}, item.Get(name))
		}
		for _, list := range lists() {
			for place, e := range array(item.Get(list)).All() {
				t.begin(path{of: group, index: int(place.Num), name: list}, e)
			}
		}
	case base == "output_item" && what == "done":
		t.found.Ended = append(t.found.Ended, group)
	case element && what == "added":
		t.begin(key, event.Get("part"))
	case !element && what == "done":
		t.end(key)
		t.end(key.spelled())
	}
}

// spelled identifies the tokens of a text.
func (p path) spelled() path {
	p.name += " " + likelihoods
	return p
}

// begin reports the first piece of a part's text.
func (t *Texts) begin(key path, part gjson.Result) {
	for _, name := range []string{"text", "refusal"} {
		t.piece(key, object(part).Get(name))
	}
}

// spelled finds the tokens of whole texts in an event or a document.
func (t *Texts) spelled(event gjson.Result) {
	if !strings.Contains(event.Raw, `"`+likelihoods+`":[{`) {
		return
	}
	key := path{of: t.group(-1, ""), index: -1, name: likelihoods}
	t.search(event, key, maxNested)
	t.end(key)
}

func (t *Texts) search(v gjson.Result, key path, left int) {
	if v.Type != gjson.JSON || left == 0 || t.over {
		return
	}
	for name, m := range v.All() {
		if v.IsObject() && name.Str == likelihoods && m.IsArray() {
			t.tokens(m, key)
			continue
		}
		t.search(m, key, left-1)
	}
}

// tokens reports a list of the tokens of a text, which spell it again.
func (t *Texts) tokens(list gjson.Result, key path) {
	if !list.IsArray() {
		return
	}
	t.found.Tokens = append(t.found.Tokens, extentOf(list))
	for _, token := range list.All() {
		t.piece(key, object(token).Get("token"))
	}
}

// message finds the texts of an event of DialectMessages.
func (t *Texts) message(event gjson.Result) {
	switch event.Get("type").Str {
	case blockStart:
		t.block(event, "content_block", "type", "id", "name")
	case blockDelta:
		t.block(event, "delta", "type")
	case blockStop:
		t.found.Ended = append(t.found.Ended, t.group(indexOf(event, 0), ""))
	}
}

// block finds the texts of a block: the members of a member of the event, but some.
func (t *Texts) block(event gjson.Result, of string, but ...string) {
	group := t.group(indexOf(event, 0), "")
	for name, v := range object(event.Get(of)).All() {
		if !slices.Contains(but, name.Str) {
			t.piece(path{of: group, name: name.Str}, v)
		}
	}
}
