package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weir/internal/traffic"
	"weir/schemas"
)

// ErrUnreadable is a stored set that this program cannot read: another version of
// it wrote the set, or somebody else.
var ErrUnreadable = errors.New("the stored rule set cannot be read")

// The ways in which a set is unreadable. Their texts hold nothing of it, so that
// they may be logged.
var (
	errDamaged = fmt.Errorf("%w: damaged", ErrUnreadable)
	errVersion = fmt.Errorf("%w: version", ErrUnreadable)
	errTenant  = fmt.Errorf("%w: other_tenant", ErrUnreadable)
	errRule    = fmt.Errorf("%w: rule", ErrUnreadable)
)

// content is what an etag covers, as it is stored. Members that only a later
// version knows count too, so that all nodes give one set one etag.
type content struct {
	Tenant       string          `json:"tenant"`
	GlobalActive bool            `json:"global_active"`
	Groups       json.RawMessage `json:"groups"`
	Rules        json.RawMessage `json:"rules"`
}

// open reads a stored set and compiles it. Without a value it is the empty set.
func open(tenant string, r schemas.Record) (Snapshot, error) {
	s := Snapshot{Revision: r.Seq}
	c := content{Tenant: tenant, GlobalActive: true, Groups: json.RawMessage("[]"), Rules: json.RawMessage("[]")}
	s.Doc = schemas.RuleSet{V: schemas.RuleSetVersion, Tenant: tenant, GlobalActive: true, Groups: []string{}, Rules: []schemas.Rule{}}
	if len(r.Data) > 0 {
		var err error
		if s.Doc, c, err = decode(tenant, r.Data); err != nil {
			return Snapshot{}, err
		}
	}
	var err error
	if s.Etag, err = etag(r.Seq, c); err != nil {
		return Snapshot{}, errDamaged
	}
	if s.Set, err = traffic.Compile(s.Doc, s.Etag); err != nil {
		return Snapshot{}, errRule
	}
	return s, nil
}

func decode(tenant string, data []byte) (doc schemas.RuleSet, c content, err error) {
	var version struct {
		V int `json:"v"`
	}
	switch {
	case json.Unmarshal(data, &version) != nil:
		return doc, c, errDamaged
	case version.V != schemas.RuleSetVersion:
		return doc, c, errVersion
	case json.Unmarshal(data, &doc) != nil || json.Unmarshal(data, &c) != nil:
		return doc, c, errDamaged
	case doc.Tenant != tenant:
		return doc, c, errTenant
	}
	return doc, c, nil
}

// encode writes a set so that its rules' own bytes stay what they are.
func encode(doc schemas.RuleSet) ([]byte, error) {
	if doc.Groups == nil {
		doc.Groups = []string{}
	}
	if doc.Rules == nil {
		doc.Rules = []schemas.Rule{}
	}
	return plain(doc)
}

// plain is JSON without the escapes that are for HTML.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

const (
	etagPrefix = "etag-"
	etagDigits = 16 // of the hash
)

func etag(revision uint64, c content) (string, error) {
	raw, err := plain(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return etagPrefix + strconv.FormatUint(revision, 10) + "-" + hex.EncodeToString(sum[:])[:etagDigits], nil
}

// Revision reads the revision out of an etag; ok is false for what is none. It says
// nothing of whether there ever was a set with that etag.
func Revision(etag string) (revision uint64, ok bool) {
	rest, ok := strings.CutPrefix(etag, etagPrefix)
	number, digits, found := strings.Cut(rest, "-")
	if !ok || !found || len(digits) != etagDigits || strings.Trim(digits, "0123456789abcdef") != "" {
		return 0, false
	}
	revision, err := strconv.ParseUint(number, 10, 64)
	if err != nil || strconv.FormatUint(revision, 10) != number {
		return 0, false
	}
	return revision, true
}
