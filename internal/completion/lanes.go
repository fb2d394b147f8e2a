package completion

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// lanes finds the texts that come in pieces over several typed events. All other strings of an
// event are whole in it, so that its reader looks for secrets in each: an event that ends a text
// repeats the whole of it, and texts of two parts or blocks are two. A secret that a model writes
// half into the one and half into the other is not found, as in two choices of a chat completion.
type lanes struct {
	find    func(l *lanes, event gjson.Result)
	numbers map[laneKey]int
	groups  map[groupKey][]int // the lanes of an item or a block
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
		l.numbers, l.groups = map[laneKey]int{}, map[groupKey][]int{}
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

// lane is the number of a text.
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

// add notes a piece of a text. Each text ends by itself, so that it is a choice of its own.
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

// end notes that a text has ended.
func (l *lanes) end(key laneKey) {
	if n, ok := l.numbers[key]; ok {
		l.found.Ended = append(l.found.Ended, n)
	}
}

// endGroup notes that every text of an item or a block has ended.
func (l *lanes) endGroup(key groupKey) {
	l.found.Ended = append(l.found.Ended, l.groups[key]...)
}

// groupOf is the item or block of an event.
func groupOf(event gjson.Result, index string, ids ...string) groupKey {
	if n, err := strconv.Atoi(event.Get(index).Raw); err == nil {
		return groupKey{index: n}
	}
	for _, name := range ids {
		if id := event.Get(name); id.Type == gjson.String {
			return groupKey{index: -1, id: id.Str}
		}
	}
	return groupKey{index: -1}
}

// likelihoods is the name of the list that spells a text again by its tokens.
const likelihoods = "logprobs"

// responseTexts finds the texts of an event of DialectResponses.
func responseTexts(l *lanes, event gjson.Result) {
	kind := strings.TrimPrefix(event.Get("type").Str, "response.")
	group := groupOf(event, "output_index", "item_id", "item.id")
	if base, ok := strings.CutSuffix(kind, ".delta"); ok {
		key := laneKey{group, partIndex(event), base}
		l.add(key, event.Get("delta"))
		l.tokens(event.Get(likelihoods), laneKey{group, key.part, likelihoods})
		return
	}
	l.spelled(event)
	switch kind {
	case "content_part.added", "reasoning_summary_part.added":
		l.begin(group, partIndex(event), event.Get("part"))
	case "output_item.added":
		item := event.Get("item")
		for _, base := range []string{"function_call_arguments", "mcp_call_arguments", "custom_tool_call_input", "code_interpreter_call_code"} {
			if p := partOf(base, event); strings.HasPrefix(base, item.Get("type").Str+"_") {
				l.add(laneKey{group, 0, base}, item.Get(p.name))
			}
		}
		for _, list := range []string{"content", "summary"} {
			n := 0
			for _, e := range array(item.Get(list)).All() {
				l.begin(group, n, e)
				n++
			}
		}
	case "output_item.done":
		l.endGroup(group)
	default:
		if base, ok := strings.CutSuffix(kind, ".done"); ok {
			part := partIndex(event)
			l.end(laneKey{group, part, base})
			l.end(laneKey{group, part, likelihoods})
		}
	}
}

// partIndex is the index of a part in its item.
func partIndex(event gjson.Result) int {
	for _, name := range []string{"content_index", "summary_index"} {
		if n, err := strconv.Atoi(event.Get(name).Raw); err == nil {
			return n
		}
	}
	return 0
}

// begin notes the text that a part begins with: deltas continue it.
func (l *lanes) begin(group groupKey, index int, part gjson.Result) {
	kind := part.Get("type").Str
	switch kind {
	case "refusal":
		l.add(laneKey{group, index, kind}, part.Get("refusal"))
	case "summary_text":
		l.add(laneKey{group, index, "reasoning_summary_text"}, part.Get("text"))
	default:
		l.add(laneKey{group, index, kind}, part.Get("text"))
	}
}

// spelled finds the tokens of texts that an event or a document has as a whole.
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

// tokens notes a list of the tokens of a text, which spell it again.
func (l *lanes) tokens(list gjson.Result, key laneKey) {
	if hollow(list) || !list.IsArray() {
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
	group := groupOf(event, "index")
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
