package gitwire

import (
	"io"
	"strings"
)

const (
	unborn       = "unborn"
	symrefTarget = "symref-target:"
	peeledAs     = "peeled:"
)

// HEAD is the name of the ref that a clone checks out.
const HEAD = "HEAD"

// Ref is one line of an advertisement, or of the answer to an ls-refs. Symref is the
// ref that it stands for, and Peeled what a tag is of. The Oid of a HEAD whose branch
// has no commit yet is empty.
type Ref struct{ Name, Oid, Symref, Peeled string }

// LsRefs is the request of protocol 2 for the refs that begin with one of the
// prefixes, or all, with what they stand for and what tags are of.
func LsRefs(prefixes ...string) []byte {
	b := appendLine(nil, "command=", CommandLsRefs, "\n")
	b = appendLine(b, capFormat, formatOK)
	b = append(b, Delim...)
	b = appendLine(b, "peel\n")
	b = appendLine(b, "symrefs\n")
	for _, p := range prefixes {
		b = appendLine(b, "ref-prefix ", p, "\n")
	}
	return append(b, Flush...)
}

// ReadRefs reads the answer to an ls-refs, of up to 16 MiB. An ERR packet is a
// *RemoteError.
func ReadRefs(r io.Reader) ([]Ref, error) {
	d := advertReader{p: NewPackets(r)}
	var refs []Ref
	for {
		text, end, err := d.next()
		if err != nil {
			return nil, ended(err, "the list of refs")
		}
		if end {
			return refs, nil
		}
		ref, err := parseRef(text)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
}

func parseRef(text string) (Ref, error) {
	oid, rest, _ := strings.Cut(text, " ")
	name, rest, _ := strings.Cut(rest, " ")
	r := Ref{Name: name, Oid: oid}
	if oid == unborn {
		r.Oid = ""
	} else if !ValidOid(oid) {
		return Ref{}, errRefLine()
	}
	for attribute := range strings.FieldsSeq(rest) {
		if target, ok := strings.CutPrefix(attribute, symrefTarget); ok {
			r.Symref = target
		} else if tag, ok := strings.CutPrefix(attribute, peeledAs); ok && ValidOid(tag) {
			r.Peeled = tag
		}
	}
	if !shown(name) || r.Symref != "" && !shown(r.Symref) {
		return Ref{}, errRefLine()
	}
	return r, nil
}

func errRefLine() error { return malformed("a line is no object id and no ref") }

// AppendRefs appends the answer to an ls-refs.
func AppendRefs(b []byte, refs []Ref) []byte {
	for _, r := range refs {
		text := r.Name
		if r.Symref != "" {
			text += " " + symrefTarget + r.Symref
		}
		if r.Peeled != "" {
			text += " " + peeledAs + r.Peeled
		}
		oid := r.Oid
		if oid == "" {
			oid = unborn
		}
		b = appendLine(b, oid, " ", text, "\n")
	}
	return append(b, Flush...)
}

// KeepRefs are the refs that keep lets be seen. One that stands for another, as HEAD
// does, is seen if that one is, and a HEAD that stands for none by name is not.
func KeepRefs(refs []Ref, keep func(ref string) bool) []Ref {
	var kept []Ref
	for _, r := range refs {
		name := r.Name
		if r.Symref != "" {
			name = r.Symref
		}
		if keep(name) {
			kept = append(kept, r)
		}
	}
	return kept
}

// shown reports whether a name is that of a ref which a server may tell of.
func shown(name string) bool { return name == HEAD || len(name) <= maxRefName && ValidRef(name) }
