package gitwire

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

const (
	servicePrefix = "# service="
	version2      = "version 2"
	noRefs        = "capabilities^{}" // stands for the ref where there is none
	peeledMark    = "^{}"
	symrefCap     = "symref="

	unborn       = "unborn"
	symrefTarget = "symref-target:"
	peeledAs     = "peeled:"
)

// maxAdvertisement is the most that is held of one, and of the answer to an ls-refs.
const maxAdvertisement = 16 << 20

// HEAD is the name of the ref that a clone checks out.
const HEAD = "HEAD"

// Ref is one line of an advertisement, or of the answer to an ls-refs. Symref is the
// ref that it stands for, and Peeled what a tag is of. The Oid of a HEAD whose branch
// has no commit yet is empty.
type Ref struct{ Name, Oid, Symref, Peeled string }

// Advertisement is the answer to GET info/refs.
type Advertisement struct {
	// Service is what the first line names; empty: there is none, as protocol 2 has it.
	Service string
	// Version is 0 or 2.
	Version int
	// Capabilities have their values, and among those of version 0 is no symref, which Refs know.
	// Of version 2 they are all that there is.
	Capabilities []string
	Refs         []Ref
	Shallow      []string
}

// ReadAdvertisement reads an advertisement to its flush, of up to 16 MiB. An ERR packet
// is a *RemoteError. A ref that has no proper name is left out.
func ReadAdvertisement(r io.Reader) (a Advertisement, err error) {
	in := bufio.NewReader(&bounded{r: r, limit: maxAdvertisement})
	if begins(in, servicePrefix) {
		for text, err := range lines(in) {
			if err != nil {
				return Advertisement{}, err
			}
			a.Service = strings.TrimPrefix(text, servicePrefix)
		}
	}
	if !begins(in, version2) {
		return a, a.readV0(in)
	}
	a.Version = 2
	for text, err := range lines(in) {
		if err != nil {
			return Advertisement{}, err
		}
		a.Capabilities = append(a.Capabilities, text)
	}
	a.Capabilities = a.Capabilities[1:]
	return a, nil
}

// begins reports whether the next packet begins with a text.
func begins(in *bufio.Reader, text string) bool {
	head, _ := in.Peek(headSize + len(text))
	return string(head[min(headSize, len(head)):]) == text && string(head[:headSize]) != Flush
}

func (a *Advertisement) readV0(in io.Reader) error {
	v := packp.NewAdvRefs()
	unexpected := new(packp.ErrUnexpectedData)
	switch err := v.Decode(in); {
	case errors.Is(err, packp.ErrEmptyAdvRefs): // a flush alone
	case errors.Is(err, packp.ErrEmptyInput), errors.As(err, &unexpected):
		return malformed("it is no list of refs")
	case err != nil:
		return wireError(err)
	}
	symrefs := map[string]string{}
	for _, pair := range v.Capabilities.Get(capability.SymRef) {
		name, target, _ := strings.Cut(pair, ":")
		symrefs[name] = target
	}
	v.Capabilities.Delete(capability.SymRef)
	a.Capabilities = strings.Fields(v.Capabilities.String())
	if v.Head != nil {
		v.References[HEAD] = *v.Head
	}
	for _, name := range slices.Sorted(maps.Keys(v.References)) { // HEAD comes first
		switch {
		case !shown(name):
			continue
		case v.References[name].IsZero(): // the library makes it of what is none
			return errRefLine()
		}
		r := Ref{Name: name, Oid: v.References[name].String(), Symref: symrefs[name]}
		if tag, ok := v.Peeled[name]; ok {
			r.Peeled = tag.String()
		}
		a.Refs = append(a.Refs, r)
	}
	for _, oid := range v.Shallows {
		a.Shallow = append(a.Shallow, oid.String())
	}
	return nil
}

func errRefLine() error { return malformed("a line is no object id and no ref") }

// shown reports whether a server may advertise a ref of this name.
func shown(name string) bool { return name == HEAD || len(name) <= maxRefName && ValidRef(name) }

// Bytes is the advertisement as a client reads it.
func (a *Advertisement) Bytes() []byte {
	var b []byte
	if a.Service != "" {
		b = append(appendLine(b, servicePrefix+a.Service+"\n"), Flush...)
	}
	if a.Version == 2 {
		b = appendLine(b, version2+"\n")
		for _, c := range a.Capabilities {
			b = appendLine(b, c+"\n")
		}
		return append(b, Flush...)
	}
	list := slices.Clone(a.Capabilities)
	for _, r := range a.Refs {
		if r.Symref != "" {
			list = append(list, symrefCap+r.Name+":"+r.Symref)
		}
	}
	first := "\x00" + strings.Join(list, " ")
	if len(a.Refs) == 0 {
		b = appendLine(b, Zero+" "+noRefs+first+"\n")
	}
	for _, r := range a.Refs {
		b = appendLine(b, r.Oid+" "+r.Name+first+"\n")
		if first = ""; r.Peeled != "" {
			b = appendLine(b, r.Peeled+" "+r.Name+peeledMark+"\n")
		}
	}
	for _, oid := range a.Shallow {
		b = appendLine(b, shallowPrefix+oid+"\n")
	}
	return append(b, Flush...)
}

// KeepRefs are the refs that keep lets be seen. One that stands for another, as HEAD
// does, is seen if that one is, and a HEAD that stands for none by name is not.
func KeepRefs(refs []Ref, keep func(ref string) bool) []Ref {
	return slices.DeleteFunc(refs, func(r Ref) bool { return !keep(cmp.Or(r.Symref, r.Name)) })
}

// AddHead has HEAD stand for a ref, where refs have that one and no HEAD: a clone checks it out.
func AddHead(refs []Ref, at string) []Ref {
	i := slices.IndexFunc(refs, func(r Ref) bool { return r.Name == at })
	if i < 0 || slices.ContainsFunc(refs, func(r Ref) bool { return r.Name == HEAD }) {
		return refs
	}
	return slices.Insert(refs, 0, Ref{Name: HEAD, Oid: refs[i].Oid, Symref: at})
}

// LsRefs is the protocol 2 request for the refs that begin with one of the prefixes, or all, with
// symbolic targets and peeled tags.
func LsRefs(prefixes ...string) []byte {
	b := appendLine(nil, "command="+CommandLsRefs+"\n")
	b = append(appendLine(b, "object-format=sha1"), Delim...)
	b = appendLine(appendLine(b, "peel\n"), "symrefs\n")
	for _, p := range prefixes {
		b = appendLine(b, "ref-prefix "+p+"\n")
	}
	return append(b, Flush...)
}

// RequestPack is the protocol 0 request for all that some objects lead to, on a side band with progress.
func RequestPack(oids []string) []byte {
	var b []byte
	capabilities := " multi_ack_detailed " + CapSideBand + " " + CapOfsDelta
	for _, oid := range slices.Compact(slices.Sorted(slices.Values(oids))) {
		b = appendLine(b, "want "+oid+capabilities+"\n")
		capabilities = ""
	}
	return appendLine(append(b, Flush...), "done\n")
}

// ReadRefs reads the answer to an ls-refs, of up to 16 MiB. An ERR packet is a
// *RemoteError.
func ReadRefs(r io.Reader) (refs []Ref, err error) {
	for text, err := range lines(&bounded{r: r, limit: maxAdvertisement}) {
		var ref Ref
		if err == nil {
			ref, err = parseRef(text)
		}
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func parseRef(text string) (Ref, error) {
	oid, rest, _ := strings.Cut(text, " ")
	name, rest, _ := strings.Cut(rest, " ")
	r := Ref{Name: name}
	if oid != unborn {
		r.Oid = oid
	}
	for attribute := range strings.FieldsSeq(rest) {
		if target, ok := strings.CutPrefix(attribute, symrefTarget); ok {
			r.Symref = target
		} else if tag, ok := strings.CutPrefix(attribute, peeledAs); ok && ValidOid(tag) {
			r.Peeled = tag
		}
	}
	if oid != unborn && !ValidOid(oid) || !shown(name) || r.Symref != "" && !shown(r.Symref) {
		return Ref{}, errRefLine()
	}
	return r, nil
}

// AppendRefs appends the answer to an ls-refs.
func AppendRefs(b []byte, refs []Ref) []byte {
	for _, r := range refs {
		text := cmp.Or(r.Oid, unborn) + " " + r.Name
		if r.Symref != "" {
			text += " " + symrefTarget + r.Symref
		}
		if r.Peeled != "" {
			text += " " + peeledAs + r.Peeled
		}
		b = appendLine(b, text+"\n")
	}
	return append(b, Flush...)
}
