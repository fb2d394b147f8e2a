package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"weir/internal/traffic"
	"weir/schemas"
)

// ErrUnreadable is a stored set that this program cannot read, for example one written by another
// version.
var ErrUnreadable = errors.New("the stored rule set cannot be read")

// The ways in which a set is unreadable. Their texts hold nothing of it, so that
// they may be logged.
var (
	errDamaged = fmt.Errorf("%w: damaged", ErrUnreadable)
	errVersion = fmt.Errorf("%w: version", ErrUnreadable)
	errTenant  = fmt.Errorf("%w: other_tenant", ErrUnreadable)
	errRule    = fmt.Errorf("%w: rule", ErrUnreadable)
)

// content is what an etag covers.
type content struct {
	Tenant       string         `json:"tenant"`
	GlobalActive bool           `json:"global_active"`
	Groups       []string       `json:"groups"`
	Rules        []schemas.Rule `json:"rules"`
}

// open reads a stored set and compiles it. Without a value it is the empty set.
func open(tenant string, r schemas.Record) (s Snapshot, err error) {
	s.Revision = r.Seq
	s.Doc = schemas.RuleSet{V: schemas.RuleSetVersion, Tenant: tenant, GlobalActive: true, Groups: []string{}, Rules: []schemas.Rule{}}
	if len(r.Data) > 0 {
		if s.Doc, err = decode(tenant, r.Data); err != nil {
			return Snapshot{}, err
		}
	}
	raw, err := schemas.Encode(content{tenant, s.Doc.GlobalActive, s.Doc.Groups, s.Doc.Rules})
	if err != nil {
		return Snapshot{}, errDamaged
	}
	sum := sha256.Sum256(raw)
	s.Etag = tag(r.Seq, hex.EncodeToString(sum[:])[:etagDigits])
	if s.Set, err = traffic.Compile(s.Doc, s.Etag); err != nil {
		return Snapshot{}, errRule
	}
	return s, nil
}

// at is the same set under another revision.
func (s Snapshot) at(revision uint64) Snapshot {
	s.Revision = revision
	s.Etag = tag(revision, s.Etag[len(s.Etag)-etagDigits:])
	s.Set = s.Set.As(s.Etag)
	return s
}

// decode reads a set that encode wrote. A damaged set must not be read as one with fewer rules, because
// calls would then leave without them. So decode encodes the result again and compares.
func decode(tenant string, data []byte) (doc schemas.RuleSet, err error) {
	err = json.Unmarshal(data, &doc)
	switch again, failed := encode(doc); {
	case err != nil && (doc.V == 0 || doc.V == schemas.RuleSetVersion):
		return doc, errDamaged
	case doc.V != schemas.RuleSetVersion:
		return doc, errVersion
	case doc.Tenant != tenant:
		return doc, errTenant
	case failed != nil || !bytes.Equal(data, again) && !same(data, again):
		return doc, errDamaged
	}
	return doc, nil
}

// same reports whether two JSON documents say the same.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// encode writes a set so that its rules' own bytes stay what they are.
func encode(doc schemas.RuleSet) ([]byte, error) {
	if doc.Groups == nil {
		doc.Groups = []string{}
	}
	if doc.Rules == nil {
		doc.Rules = []schemas.Rule{}
	}
	return schemas.Encode(doc)
}

const (
	etagPrefix = "etag-"
	etagDigits = 16 // of the hash
)

func tag(revision uint64, digits string) string {
	return etagPrefix + strconv.FormatUint(revision, 10) + "-" + digits
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
