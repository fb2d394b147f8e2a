package completion

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// lanes finds the texts that arrive in pieces over several typed events. All other strings of an
// event are whole, and the caller scrubs each event as a document: a secret cannot be split between
// two events that end a text, because each of them repeats that whole text. Two parts or blocks are
// two texts. A secret that spans two of them is not found, like one that spans two choices.
type lanes struct {
	find    func(l *lanes, event gjson.Result)
	numbers map[laneKey]int
	groups  map[groupKey][]int // the lanes of an item or a block
	indexes map[string]int     // of items, by their ids
	names   int                // bytes
	over    bool
	found   *Found
}

// laneKey names a text.
type laneKey struct {
	groupKey

	part int
	name string
}

// groupKey names an item or a block: by its id where it has no index.
type groupKey struct {
	index int
	id    string
}

// Read is TextReader's.
func (l *lanes) Read(raw json.RawMessage, found *Found) bool {
	if l.numbers == nil {
		l.numbers, l.groups, l.indexes = map[laneKey]int{}, map[groupKey][]int{}, map[string]int{}
	}
	*found = Found{found.Texts[:0], found.Tokens[:0], found.Ended[:0]}
	l.found = found
	l.find(l, Parse(raw))
	l.found = nil
	if len(found.Texts) > 1 {
		slices.SortFunc(found.Texts, func(a, b Text) int { return a.From - b.From })
	}
	return !l.over
}

// lane returns the number of a text.
func (l *lanes) lane(key laneKey) int {
	n, ok := l.numbers[key]
	if ok {
		return n
	}
	l.names += len(key.name) + len(key.id)
	if n = len(l.numbers); n >= maxPaths || l.names > maxNames {
		l.over = true
		return n
	}
	key.name, key.id = strings.Clone(key.name), strings.Clone(key.id)
	l.numbers[key] = n
	l.groups[key.groupKey] = append(l.groups[key.groupKey], n)
	return n
}

// add reports a piece of a text. Each text ends independently, so each has its own choice.
func (l *lanes) add(key laneKey, v gjson.Result) {
	if v.Type != gjson.String || len(v.Raw) == len(`""`) || l.over {
		return
	}
	if len(l.found.Texts) == maxTexts {
		l.over = true
		return
	}
	n := l.lane(key)
	if !l.over {
		l.found.Texts = append(l.found.Texts, Text{extentOf(v), n, n})
	}
}

// end reports that a text has ended.
func (l *lanes) end(key laneKey) {
	if n, ok := l.numbers[key]; ok {
		l.found.Ended = append(l.found.Ended, n)
	}
}

// endGroup reports that every text of an item or a block has ended.
func (l *lanes) endGroup(key groupKey) {
	l.found.Ended = append(l.found.Ended, l.groups[key]...)
}

// item identifies the item of an event of DialectResponses: by its index, or by its id.
func (l *lanes) item(event gjson.Result) groupKey {
	id := event.Get("item_id")
	if id.Type != gjson.String {
		id = event.Get("item.id")
	}
	n, err := strconv.Atoi(event.Get("output_index").Raw)
	known, ok := l.indexes[id.Str]
	switch {
	case err == nil && id.Str != "" && !ok && len(l.indexes) < maxPaths:
		l.indexes[strings.Clone(id.Str)] = n
		l.names += len(id.Str)
	case err == nil:
	case ok:
		return groupKey{index: known}
	default:
		return groupKey{index: -1, id: id.Str}
	}
	return groupKey{index: n}
}

// likelihoods is the name of the list that spells a text again by its tokens.
const likelihoods = "logprobs"

// responseTexts finds the texts of an event of DialectResponses.
func responseTexts(l *lanes, event gjson.Result) {
	kind := strings.TrimPrefix(event.Get("type").Str, "response.")
	group := l.item(event)
	if base, ok := strings.CutSuffix(kind, ".delta"); ok {
		key := textOf(group, base, event)
		l.add(key, event.Get("delta"))
		if list := event.Get(likelihoods); !hollow(list) {
			l.tokens(list, key.spelled())
		}
		return
	}
	l.spelled(event)
	switch kind {
	case "content_part.added":
		l.begin(laneKey{group, int(event.Get("content_index").Int()), "content"}, event.Get("part"))
	case "reasoning_summary_part.added":
		l.begin(laneKey{group, int(event.Get("summary_index").Int()), "summary"}, event.Get("part"))
	case "output_item.added":
		item := object(event.Get("item"))
		for _, name := range texts() {
			l.add(laneKey{group, 0, ""}, item.Get(name))
		}
		for _, list := range []string{"content", "summary"} {
			n := 0
			for _, e := range array(item.Get(list)).All() {
				l.begin(laneKey{group, n, list}, e)
				n++
			}
		}
	case "output_item.done":
		l.endGroup(group)
	default:
		if base, ok := strings.CutSuffix(kind, ".done"); ok {
			key := textOf(group, base, event)
			l.end(key)
			l.end(key.spelled())
		}
	}
}

// textOf identifies the text that the deltas of a type continue: the part of an item, as in
// responseAnswer. The deltas of an unknown type have a text of their own.
func textOf(group groupKey, base string, event gjson.Result) laneKey {
	if p := partOf(base, event); p.name != "" {
		return laneKey{group, p.index, p.list}
	}
	return laneKey{group, int(event.Get("content_index").Int()), base}
}

// spelled identifies the tokens of a text.
func (k laneKey) spelled() laneKey {
	k.name += " " + likelihoods
	return k
}

// begin reports the first piece of a part's text.
func (l *lanes) begin(key laneKey, part gjson.Result) {
	for _, name := range []string{"text", "refusal"} {
		l.add(key, object(part).Get(name))
	}
}

// spelled finds the tokens of whole texts in an event or a document.
func (l *lanes) spelled(event gjson.Result) {
	if !strings.Contains(event.Raw, `"`+likelihoods+`":[{`) {
		return
	}
	key := laneKey{groupKey{index: -1}, -1, likelihoods}
	l.search(event, key, maxNested)
	l.end(key)
}

func (l *lanes) search(v gjson.Result, key laneKey, left int) {
	if v.Type != gjson.JSON || left == 0 || l.over {
		return
	}
	for name, m := range v.All() {
		if v.IsObject() && name.Str == likelihoods && m.IsArray() {
			l.tokens(m, key)
			continue
		}
		l.search(m, key, left-1)
	}
}

// tokens reports a list of the tokens of a text, which spell it again.
func (l *lanes) tokens(list gjson.Result, key laneKey) {
	if !list.IsArray() {
		return
	}
	l.found.Tokens = append(l.found.Tokens, extentOf(list))
	for _, token := range list.All() {
		l.add(key, object(token).Get("token"))
	}
}

// messageTexts finds the texts of an event of DialectMessages.
func messageTexts(l *lanes, event gjson.Result) {
	kind := event.Get("type").Str
	if !strings.HasPrefix(kind, "content_block_") {
		return
	}
	group := groupKey{index: indexOf(event, 0)}
	switch kind {
	case "content_block_start":
		for name, v := range object(event.Get("content_block")).All() {
			if name.Str != "type" && name.Str != "id" && name.Str != "name" {
				l.add(laneKey{group, 0, name.Str}, v)
			}
		}
	case "content_block_delta":
		for name, v := range object(event.Get("delta")).All() {
			if name.Str != "type" {
				l.add(laneKey{group, 0, name.Str}, v)
			}
		}
	case "content_block_stop":
		l.endGroup(group)
	}
}
