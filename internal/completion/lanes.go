package completion

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// This file finds the texts that arrive in pieces over several typed events. All other strings of an
// event are whole, and the caller scrubs each event as a document: a secret cannot be split between
// two events that end a text, because each of them repeats that whole text. Two parts or blocks are
// two texts. A secret that spans two of them is not found, like one that spans two choices. Each
// text ends independently, so each has its own choice.

// piece notes a piece of a text.
func (t *Texts) piece(of path, v gjson.Result) {
	if v.Type != gjson.String || v.Raw == emptyText || t.over {
		return
	}
	known := len(t.paths)
	n := t.number(of)
	if n > known {
		t.groups[of.of] = append(t.groups[of.of], n)
	}
	t.add(v, n, n)
}

// end reports that a text has ended.
func (t *Texts) end(text path) {
	if n, ok := t.paths[text]; ok {
		t.found.Ended = append(t.found.Ended, n)
	}
}

// endGroup reports that every text of an item or a block has ended.
func (t *Texts) endGroup(group int) { t.found.Ended = append(t.found.Ended, t.groups[group]...) }

// group is the number of an item or a block: by its id where it has no index.
func (t *Texts) group(index int, id string) int {
	return t.number(path{element: true, index: index, name: id})
}

// item is the number of the item of an event of DialectResponses: by its index, or by its id.
func (t *Texts) item(event gjson.Result) int {
	id := event.Get("item_id")
	if id.Type != gjson.String {
		id = event.Get("item.id")
	}
	n, err := strconv.Atoi(event.Get("output_index").Raw)
	known, ok := t.indexes[id.Str]
	switch {
	case err == nil && id.Str != "" && !ok && len(t.indexes) < maxPaths:
		t.indexes[strings.Clone(id.Str)] = n
		t.names += len(id.Str)
	case err == nil:
	case ok:
		n = known
	default:
		return t.group(-1, id.Str)
	}
	return t.group(n, "")
}

// likelihoods is the name of the list that spells a text again by its tokens.
const likelihoods = "logprobs"

// response finds the texts of an event of DialectResponses.
func (t *Texts) response(event gjson.Result) {
	kind := strings.TrimPrefix(event.Get("type").Str, "response.")
	group := t.item(event)
	if base, ok := strings.CutSuffix(kind, ".delta"); ok {
		key := textOf(group, base, event)
		t.piece(key, event.Get("delta"))
		if list := event.Get(likelihoods); !hollow(list) {
			t.tokens(list, key.spelled())
		}
		return
	}
	t.spelled(event)
	switch kind {
	case "content_part.added":
		t.begin(path{of: group, index: int(event.Get("content_index").Int()), name: "content"}, event.Get("part"))
	case "reasoning_summary_part.added":
		t.begin(path{of: group, index: int(event.Get("summary_index").Int()), name: "summary"}, event.Get("part"))
	case "output_item.added":
		item := object(event.Get("item"))
		for _, name := range texts() {
			t.piece(path{of: group}, item.Get(name))
		}
		for _, list := range []string{"content", "summary"} {
			for place, e := range array(item.Get(list)).All() {
				t.begin(path{of: group, index: int(place.Num), name: list}, e)
			}
		}
	case "output_item.done":
		t.endGroup(group)
	default:
		if base, ok := strings.CutSuffix(kind, ".done"); ok {
			key := textOf(group, base, event)
			t.end(key)
			t.end(key.spelled())
		}
	}
}

// textOf identifies the text that the deltas of a type continue: the part of an item, as in
// responseAnswer. The deltas of an unknown type have a text of their own.
func textOf(group int, base string, event gjson.Result) path {
	if p := partOf(base, event); p.name != "" {
		return path{of: group, index: p.index, name: p.list}
	}
	return path{of: group, index: int(event.Get("content_index").Int()), name: base}
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
	kind := event.Get("type").Str
	if !strings.HasPrefix(kind, "content_block_") {
		return
	}
	group := t.group(indexOf(event, 0), "")
	switch kind {
	case "content_block_start":
		for name, v := range object(event.Get("content_block")).All() {
			if name.Str != "type" && name.Str != "id" && name.Str != "name" {
				t.piece(path{of: group, name: name.Str}, v)
			}
		}
	case "content_block_delta":
		for name, v := range object(event.Get("delta")).All() {
			if name.Str != "type" {
				t.piece(path{of: group, name: name.Str}, v)
			}
		}
	case "content_block_stop":
		t.endGroup(group)
	}
}
