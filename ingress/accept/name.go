package accept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Name is the id that a caller gives an action, and its source. The zero Name means that an id will
// be made.
type Name struct {
	ID     string
	Source schemas.IDSource
	// derived: Derive has made the id.
	derived bool
}

// The prefixes of the ids that Derive makes. Accept refuses them in an id of a caller, who could
// otherwise take the id of a later request.
const (
	PrefixKey     = "idk-" // of an Idempotency-Key
	PrefixRules   = "rul-" // of a write of traffic rules
	PrefixRedrive = "rdr-" // of a dead letter that is redriven
)

// reserved reports whether a caller gave an id that only Derive may make.
func (n Name) reserved() bool {
	return !n.derived && slices.ContainsFunc([]string{PrefixKey, PrefixRules, PrefixRedrive}, func(p string) bool { return strings.HasPrefix(n.ID, p) })
}

// NameOf decides which of the two names a caller may give counts. requestID
// has been checked by the surface; key is what Key read. With both, the key
// names the action and request_id says nothing: clients renew request_id with
// every try and keep the key.
func NameOf(tenant, route, requestID, key string) Name {
	switch {
	case key != "":
		return Derive(PrefixKey, schemas.IDKey, tenant, route, key)
	case requestID != "":
		return Name{ID: requestID, Source: schemas.IDRequest}
	default:
		return Name{}
	}
}

// Derive makes an id of parts; the same parts make the same id. A part cannot
// run into the next. The prefix is one of those above.
func Derive(prefix string, source schemas.IDSource, parts ...string) Name {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		_, _ = h.Write(sum[:]) // never fails
	}
	return Name{ID: prefix + hex.EncodeToString(h.Sum(nil)), Source: source, derived: true}
}

// maxKey is the longest Idempotency-Key, quotes aside.
const maxKey = 255

// Key reads the Idempotency-Key header: a structured-field string in quotes,
// as the IETF draft has it, or the bare token that most clients send. The two
// spellings of one key are one key. No header is "".
func Key(fields []string) (string, error) {
	switch len(fields) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", badKey("stands more than once; send it once")
	}
	s := strings.Trim(fields[0], " \t")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", badKey("may hold visible ASCII characters only")
		}
	}
	if strings.HasPrefix(s, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{s})
		text, ok := item.Value.(string)
		if err != nil || !ok || len(item.Params.Names()) > 0 {
			return "", badKey(`is not a string in quotes; only \" and \\ may be escaped, and nothing may follow`)
		}
		s = text
	} else if strings.ContainsAny(s, " \",;\\") {
		return "", badKey("must be one string in quotes, or one token without spaces, commas and semicolons")
	}
	if s == "" || len(s) > maxKey {
		return "", badKey("must have 1 to 255 characters")
	}
	return s, nil
}

func badKey(what string) error {
	return fault.New(schemas.InvalidRequest, "the Idempotency-Key header "+what)
}

// claim claims the name, or finds the action that has it. With a refusal it only finds: the refusal
// is the error if there is no action.
func (a *Acceptor) claim(ctx context.Context, action schemas.Action, r Request) (st *ledger.State, duplicate bool, err error) {
	if r.Before != nil {
		r.Before(schemas.Ref{Tenant: action.Tenant, Kind: action.Kind, ID: action.ID})
	}
	failpoint.At(failpoint.Claiming, action.ID)
	defer failpoint.At(failpoint.Claimed, action.ID)
	if r.Refusal != nil || r.Commit != nil && action.IDSource != schemas.IDGenerated {
		if st, err = a.ledger.Existing(ctx, action); !errors.Is(err, fault.ErrNotFound) {
			return st, true, err
		}
	}
	if err = r.Refusal; err == nil && r.Commit != nil {
		err = r.Commit(ctx)
	}
	if err != nil {
		return nil, true, err
	}
	return a.ledger.Claim(ctx, action)
}
