package gitwire

import (
	"cmp"
	"io"
	"slices"
	"strings"
)

const (
	servicePrefix = "# service="
	versionPrefix = "version "
	version2      = versionPrefix + "2"
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
	// maxLines is how many refs have room in that: a ref has an id of 40 digits.
	maxLines = maxAdvertisement / 40
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
	// Version is 0 or 2.
	Version int
	// Capabilities have their values, and among those of version 0 is no symref, which Refs know.
	// Of version 2 they are all that there is.
	Capabilities []string
	Refs         []Ref
	Shallow      []string
}

// readLines reads the lines of a server up to its flush. An ERR packet is a *RemoteError.
func readLines(p *Packets) (lines []string, err error) {
	for data, err := range p.lines("the list of refs") {
		text := line(data)
		said, refused := strings.CutPrefix(text, errPrefix)
		switch {
		case err != nil:
			return nil, err
		case p.size > maxAdvertisement, len(lines) == maxLines:
			return nil, tooLarge("the list of refs has more than 16 MiB")
		case len(data) > maxLine:
			return nil, tooLarge("a line of the list of refs")
		case refused:
			return nil, &RemoteError{Text: clean([]byte(said))}
		}
		lines = append(lines, text)
	}
	return lines, nil
}

// ReadAdvertisement reads an advertisement to its flush, of up to 16 MiB. An ERR packet
// is a *RemoteError.
func ReadAdvertisement(r io.Reader) (Advertisement, error) {
	p, a := NewPackets(r), Advertisement{}
	lines, err := readLines(p)
	if err == nil && len(lines) > 0 {
		if service, ok := strings.CutPrefix(lines[0], servicePrefix); ok {
			if a.Service = service; len(lines) > 1 || !ascii(service) {
				return Advertisement{}, malformed("the service's name is not alone")
			}
			lines, err = readLines(p)
		}
	}
	if err == nil && len(lines) > 0 && strings.HasPrefix(lines[0], versionPrefix) {
		if lines[0] != version2 {
			return Advertisement{}, malformed("the version is neither 0 nor 2")
		}
		a.Version, lines = 2, lines[1:]
	}
	if err == nil {
		err = a.parseLines(lines)
	}
	if err != nil {
		return Advertisement{}, err
	}
	return a, nil
}

// parseLines reads the lines behind the version.
func (a *Advertisement) parseLines(lines []string) error {
	symrefs := map[string]string{}
	for i, text := range lines {
		if a.Version == 2 {
			if !ascii(text) || text == "" {
				return malformed("a capability is no plain text")
			}
			a.Capabilities = append(a.Capabilities, text)
			continue
		}
		text, list, has := strings.Cut(text, "\x00")
		if has && i > 0 || !ascii(list) {
			return malformed("the capabilities are no plain text on the first line")
		}
		for c := range strings.FieldsSeq(list) {
			if pair, ok := strings.CutPrefix(c, symrefCap); ok {
				name, target, _ := strings.Cut(pair, ":")
				symrefs[name] = target
			} else {
				a.Capabilities = append(a.Capabilities, c)
			}
		}
		if err := a.ref(text, symrefs); err != nil {
			return err
		}
	}
	return nil
}

// ref reads a line of version 0, without capabilities.
func (a *Advertisement) ref(text string, symrefs map[string]string) error {
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
		a.Refs = append(a.Refs, Ref{Name: name, Oid: oid, Symref: symrefs[name]})
	case last < 0 || a.Refs[last].Name != tag:
		return malformed("a peeled line does not follow its tag's")
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

// LsRefs is the protocol 2 request for the refs that begin with one of the prefixes, or all, with
// symbolic targets and peeled tags.
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
	lines, err := readLines(NewPackets(r))
	var refs []Ref
	for _, text := range lines {
		ref, err := parseRef(text)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, err
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
