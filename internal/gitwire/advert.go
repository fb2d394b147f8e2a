package gitwire

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
)

const (
	servicePrefix = "# service="
	versionPrefix = "version "
	noRefs        = "capabilities^{}" // stands for the ref where there is none
	peeledMark    = "^{}"
	symrefCap     = "symref="
	haveMark      = ".have" // an object that is there, and no ref

	unborn       = "unborn"
	symrefTarget = "symref-target:"
	peeledAs     = "peeled:"
)

const (
	// maxAdvertisement is the most that is held of one, and of the answer to an ls-refs.
	maxAdvertisement = 16 << 20
	// maxLine is short of a packet, so that what was read can be written.
	maxLine = maxPayload - 16
)

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
	// Version is 0, 1 or 2.
	Version int
	// Capabilities have their values, and among those of versions 0 and 1 is no symref, which
	// Refs know. Of version 2 they are all that there is.
	Capabilities []string
	Refs         []Ref
	Shallow      []string
}

// refReader reads lines of a server, up to 16 MiB in all.
type refReader struct {
	p       *Packets
	a       Advertisement
	begun   bool // the first line of the advertisement itself is read
	symrefs map[string]string
}

// ReadAdvertisement reads an advertisement to its flush, of up to 16 MiB. An ERR packet
// is a *RemoteError.
func ReadAdvertisement(r io.Reader) (Advertisement, error) {
	d := refReader{p: NewPackets(r), symrefs: map[string]string{}}
	if err := d.advertisement(); err != nil {
		return Advertisement{}, ended(err, "the advertisement")
	}
	for i, ref := range d.a.Refs {
		d.a.Refs[i].Symref = d.symrefs[ref.Name]
	}
	return d.a, nil
}

func (d *refReader) advertisement() error {
	text, end, err := d.next()
	if err != nil {
		return err
	}
	if service, ok := strings.CutPrefix(text, servicePrefix); ok {
		d.a.Service = service
		switch _, end, err = d.next(); {
		case err != nil:
			return err
		case !end || !ascii(service):
			return malformed("the service's name is not alone")
		}
		if text, end, err = d.next(); err != nil {
			return err
		}
	}
	if v, ok := strings.CutPrefix(text, versionPrefix); ok {
		if v != "1" && v != "2" {
			return malformed("the version is none that there is")
		}
		d.a.Version, _ = strconv.Atoi(v)
		if text, end, err = d.next(); err != nil {
			return err
		}
	}
	for !end {
		if err = d.take(text); err != nil {
			return err
		}
		if text, end, err = d.next(); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next line, or that there was the flush.
func (d *refReader) next() (text string, end bool, err error) {
	kind, data, err := d.p.Next()
	switch {
	case err != nil:
		return "", false, err
	case d.p.size > maxAdvertisement:
		return "", false, tooLarge("the list of refs has more than 16 MiB")
	case kind == KindFlush:
		return "", true, nil
	case kind != KindData:
		return "", false, malformed("a packet stands where it does not belong")
	case len(data) > maxLine:
		return "", false, tooLarge("a line of the list of refs")
	}
	text = line(data)
	if said, ok := strings.CutPrefix(text, errPrefix); ok {
		return "", false, &RemoteError{Text: clean([]byte(said))}
	}
	return text, false, nil
}

func (d *refReader) take(text string) error {
	a := &d.a
	if a.Version == 2 {
		if !ascii(text) || text == "" {
			return malformed("a capability is no plain text")
		}
		a.Capabilities = append(a.Capabilities, text)
		return nil
	}
	text, list, has := strings.Cut(text, "\x00")
	if has && d.begun || !ascii(list) {
		return malformed("the capabilities are no plain text on the first line")
	}
	d.begun = true
	for c := range strings.FieldsSeq(list) {
		if pair, ok := strings.CutPrefix(c, symrefCap); ok {
			name, target, _ := strings.Cut(pair, ":")
			d.symrefs[name] = target
		} else {
			a.Capabilities = append(a.Capabilities, c)
		}
	}
	if oid, ok := strings.CutPrefix(text, shallowPrefix); ok {
		if !ValidOid(oid) {
			return malformed("a shallow line has no object id")
		}
		a.Shallow = append(a.Shallow, oid)
		return nil
	}
	oid, name, _ := strings.Cut(text, " ")
	if name == haveMark || name == noRefs {
		return nil
	}
	tag, peeled := strings.CutSuffix(name, peeledMark)
	last := len(a.Refs) - 1
	switch {
	case !ValidOid(oid) || !shown(tag):
		return errRefLine()
	case !peeled:
		a.Refs = append(a.Refs, Ref{Name: name, Oid: oid})
	case last < 0 || a.Refs[last].Name != tag:
		return malformed("a peeled line is not behind its tag's")
	default:
		a.Refs[last].Peeled = oid
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
	if a.Version > 0 {
		b = appendLine(b, versionPrefix+strconv.Itoa(a.Version)+"\n")
	}
	if a.Version == 2 {
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

// Keep drops the refs that keep does not allow; see KeepRefs.
func (a *Advertisement) Keep(keep func(ref string) bool) { a.Refs = KeepRefs(a.Refs, keep) }

// KeepRefs are the refs that keep lets be seen. One that stands for another, as HEAD
// does, is seen if that one is, and a HEAD that stands for none by name is not.
func KeepRefs(refs []Ref, keep func(ref string) bool) []Ref {
	var kept []Ref
	for _, r := range refs {
		if name := cmp.Or(r.Symref, r.Name); keep(name) {
			kept = append(kept, r)
		}
	}
	return kept
}

// LsRefs is the request of protocol 2 for the refs that begin with one of the
// prefixes, or all, with what they stand for and what tags are of.
func LsRefs(prefixes ...string) []byte {
	b := appendLine(nil, "command="+CommandLsRefs+"\n")
	b = append(appendLine(b, capFormat+formatOK), Delim...)
	b = appendLine(appendLine(b, "peel\n"), "symrefs\n")
	for _, p := range prefixes {
		b = appendLine(b, "ref-prefix "+p+"\n")
	}
	return append(b, Flush...)
}

// ReadRefs reads the answer to an ls-refs, of up to 16 MiB. An ERR packet is a
// *RemoteError.
func ReadRefs(r io.Reader) ([]Ref, error) {
	d := refReader{p: NewPackets(r)}
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
