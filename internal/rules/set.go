package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

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

// content is what an etag covers, as it is stored.
type content struct {
	Tenant       string          `json:"tenant"`
	GlobalActive bool            `json:"global_active"`
	Groups       json.RawMessage `json:"groups"`
	Rules        json.RawMessage `json:"rules"`
}

// stored is a set as it is stored. All of it has to be there, and nothing else: what
// lost a part, or was given one, must not be read as if it had none.
type stored struct {
	V            int             `json:"v"`
	Tenant       string          `json:"tenant"`
	GlobalActive *bool           `json:"global_active"`
	Groups       json.RawMessage `json:"groups"`
	Rules        json.RawMessage `json:"rules"`
	By           *string         `json:"by"`
	Previous     *uint64         `json:"previous"`
	At           *time.Time      `json:"at"`
}

// storedRule is a rule as it is stored. Of its members only enabled could be missing
// without traffic.Compile's word, and have calls go out as if the rule were not there.
type storedRule struct {
	schemas.Rule

	Enabled *bool `json:"enabled"`
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

// at is the same set under another revision.
func (s Snapshot) at(revision uint64) Snapshot {
	s.Revision = revision
	s.Etag = tag(revision, s.Etag[len(s.Etag)-etagDigits:])
	s.Set = s.Set.As(s.Etag)
	return s
}

func decode(tenant string, data []byte) (doc schemas.RuleSet, c content, err error) {
	var in stored
	var rules []storedRule
	switch {
	case strict(data, &in) != nil || in.V != schemas.RuleSetVersion:
		return doc, c, blame(data)
	case in.Tenant != tenant:
		return doc, c, errTenant
	case in.GlobalActive == nil || in.By == nil || in.Previous == nil || in.At == nil:
		return doc, c, errDamaged
	case json.Unmarshal(in.Groups, &doc.Groups) != nil || doc.Groups == nil:
		return doc, c, errDamaged
	case strict(in.Rules, &rules) != nil || rules == nil:
		return doc, c, errDamaged
	}
	doc.Rules = make([]schemas.Rule, len(rules))
	for i := range rules {
		if rules[i].Enabled == nil {
			return doc, c, errDamaged
		}
		doc.Rules[i] = rules[i].Rule
		doc.Rules[i].Enabled = *rules[i].Enabled
	}
	doc.V, doc.Tenant, doc.GlobalActive = in.V, in.Tenant, *in.GlobalActive
	doc.By, doc.Previous, doc.At = *in.By, *in.Previous, *in.At
	return doc, content{Tenant: in.Tenant, GlobalActive: *in.GlobalActive, Groups: in.Groups, Rules: in.Rules}, nil
}

// blame says why data is no set of this version.
func blame(data []byte) error {
	var version struct {
		V int `json:"v"`
	}
	if json.Unmarshal(data, &version) == nil && version.V != schemas.RuleSetVersion {
		return errVersion
	}
	return errDamaged
}

// strict reads one JSON value, as encoding/json does, without a member that v does not have.
func strict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, jsonv1.DefaultOptionsV1(), jsonv2.RejectUnknownMembers(true))
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

func etag(revision uint64, c content) (string, error) {
	raw, err := schemas.Encode(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return tag(revision, hex.EncodeToString(sum[:])[:etagDigits]), nil
}

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
