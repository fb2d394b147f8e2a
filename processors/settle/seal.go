package settle

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"weir/internal/ledger"
	"weir/schemas"
)

// SealPrefix is the prefix of a sealed value.
const SealPrefix = "hmac-sha256:"

// Seal removes the content from the evidence of sensitive actions. Weir's own values stay: numbers,
// codes, enumerated values, the names of entries and of workers, the ids of traffic rules. Snippets
// are removed. Everything else is replaced by a keyed hash. Within a tenant, equal content has an
// equal hash, so that records can be compared; without the key a guess cannot be verified.
//
// It is safe for concurrent use.
type Seal struct {
	key          []byte
	chat, others table
}

// NewSeal returns a seal with a key of at least 16 random bytes, which it copies.
func NewSeal(key []byte) *Seal { return &Seal{slices.Clone(key), chatMembers(), otherMembers()} }

// Mac is the text that replaces content in a tenant's evidence; for a digest, it hashes its hex
// form. Each tenant has a key of its own, derived from the seal's: a caller in one tenant must not
// be able to verify guesses about another's content.
func (s *Seal) Mac(tenant, content string) string {
	return SealPrefix + hex.EncodeToString(mac(mac(s.key, "tenant:"+tenant), content))
}

func mac(key []byte, content string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(content)) // never fails
	return h.Sum(nil)
}

// record is a record without content. Its identifying fields stay as they are: id, kind, entry and
// code.
func (s *Seal) record(e schemas.Evidence) (schemas.Evidence, error) {
	w := sealing{seal: s, tenant: e.Tenant, members: s.others, entry: e.Entry}
	if e.Kind == schemas.EvidenceChat {
		w.members = s.chat
	}
	payload, err := w.value(e.Payload)
	if err == nil && len(payload) > schemas.InlineLimit {
		// Hashes are longer than much that they stand for: a long list of effects
		// becomes one.
		w.brief = true
		payload, err = w.value(e.Payload)
	}
	if err != nil {
		return e, fmt.Errorf("evidence %s: %w", e.Kind, err)
	}
	e.Payload = payload
	if e.Shadow != nil {
		shadow := *e.Shadow // the log's own keeps its words
		shadow.Reason = ""
		e.Shadow = &shadow
	}
	if e.Traffic != nil && e.Traffic.Target != "" {
		traffic := *e.Traffic
		traffic.Target = w.hash(traffic.Target)
		e.Traffic = &traffic
	}
	return e, nil
}

// sealing is the walk over one payload.
type sealing struct {
	seal    *Seal
	tenant  string
	members table
	entry   string // the record's own
	brief   bool   // lists of effects as one hash
}

// value is a payload, or one of its objects, without content.
func (w *sealing) value(raw json.RawMessage) (json.RawMessage, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) {
		return w.mac(raw)
	}
	return w.object(raw, w.member)
}

// object writes the members that each gives for one; none for a nil value.
func (w *sealing) object(raw json.RawMessage, each func(name string, v json.RawMessage) (string, json.RawMessage, error)) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, fmt.Errorf("a value of %d bytes is not JSON", len(raw))
	}
	out := []byte{'{'}
	var failed error
	gjson.ParseBytes(raw).ForEach(func(key, value gjson.Result) bool {
		name, v, err := each(key.String(), json.RawMessage(value.Raw))
		if err != nil || v == nil {
			failed = err
			return err == nil
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		quoted, err := ledger.Encode(name)
		out, failed = append(append(append(out, quoted...), ':'), v...), err
		return err == nil
	})
	return append(out, '}'), failed
}

// member seals a payload's member.
func (w *sealing) member(name string, v json.RawMessage) (string, json.RawMessage, error) {
	treat, known := w.members[name]
	if !known {
		name, treat = w.hash(name), (*sealing).mac // the name may be content itself
	}
	v, err := treat(w, v)
	return name, v, err
}

// effects are objects under names that the caller gave.
func (w *sealing) effects(v json.RawMessage) (json.RawMessage, error) {
	if w.brief || v[0] != '{' {
		return w.mac(v)
	}
	return w.object(v, func(name string, v json.RawMessage) (string, json.RawMessage, error) {
		v, err := w.value(v)
		return w.hash(name), v, err
	})
}

// mac is the hash of a value: of a string its content, of anything else its JSON. An empty value has
// no content and stays.
func (w *sealing) mac(v json.RawMessage) (json.RawMessage, error) {
	text := string(v)
	switch text {
	case "null", `""`, "{}", "[]":
		return v, nil
	}
	if json.Unmarshal(v, &text) != nil && !json.Valid(v) {
		return nil, fmt.Errorf("a value of %d bytes is not JSON", len(v))
	}
	return ledger.Encode(w.hash(text))
}

func (w *sealing) hash(content string) string { return w.seal.Mac(w.tenant, content) }
