package gitwire

import (
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
)

const (
	// maxAdvertisement is the most that is held of one, and of the answer to an ls-refs.
	maxAdvertisement = 16 << 20
	// maxLine is short of a packet, so that what was read can be written.
	maxLine = maxPayload - 16
)

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

// ReadAdvertisement reads an advertisement to its flush, of up to 16 MiB. An ERR packet
// is a *RemoteError.
func ReadAdvertisement(r io.Reader) (Advertisement, error) {
	d := advertReader{p: NewPackets(r)}
	if err := d.read(); err != nil {
		return Advertisement{}, ended(err, "the advertisement")
	}
	resolve(d.a.Refs, d.symrefs)
	return d.a, nil
}

type advertReader struct {
	p       *Packets
	a       Advertisement
	begun   bool // the first line of the advertisement itself is read
	symrefs map[string]string
}

func (d *advertReader) read() error {
	text, end, err := d.next()
	if err != nil {
		return err
	}
	if service, ok := strings.CutPrefix(text, servicePrefix); ok {
		if text, end, err = d.service(service); err != nil {
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
	for ; !end; text, end, err = d.next() {
		if err == nil {
			err = d.take(text)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// service takes the first line, which a flush follows, and returns the one after.
func (d *advertReader) service(name string) (text string, end bool, err error) {
	d.a.Service = name
	_, end, err = d.next()
	switch {
	case err != nil:
		return "", false, err
	case !end || !ascii(name):
		return "", false, malformed("the service's name is not alone")
	}
	return d.next()
}

func (d *advertReader) next() (text string, end bool, err error) {
	kind, data, err := d.p.Next()
	switch {
	case err != nil:
		return "", false, err
	case d.p.Size() > maxAdvertisement:
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

func (d *advertReader) take(text string) error {
	if d.a.Version == 2 {
		if !ascii(text) || text == "" {
			return malformed("a capability is no plain text")
		}
		d.a.Capabilities = append(d.a.Capabilities, text)
		return nil
	}
	text, list, has := strings.Cut(text, "\x00")
	if has && d.begun || !ascii(list) {
		return malformed("the capabilities are no plain text on the first line")
	}
	if !d.begun {
		d.begun = true
		d.capabilities(list)
	}
	if oid, ok := strings.CutPrefix(text, shallowPrefix); ok {
		if !ValidOid(oid) {
			return malformed("a shallow line has no object id")
		}
		d.a.Shallow = append(d.a.Shallow, oid)
		return nil
	}
	oid, name, _ := strings.Cut(text, " ")
	if name == haveMark || name == noRefs {
		return nil
	}
	if !ValidOid(oid) || !shown(strings.TrimSuffix(name, peeledMark)) {
		return malformed("a line is no object id and no ref")
	}
	if tag, ok := strings.CutSuffix(name, peeledMark); ok {
		if !peel(d.a.Refs, tag, oid) {
			return malformed("a peeled line is not behind its tag's")
		}
		return nil
	}
	d.a.Refs = append(d.a.Refs, Ref{Name: name, Oid: oid})
	return nil
}

func (d *advertReader) capabilities(list string) {
	d.symrefs = map[string]string{}
	for c := range strings.FieldsSeq(list) {
		if pair, ok := strings.CutPrefix(c, symrefCap); ok {
			name, target, _ := strings.Cut(pair, ":")
			d.symrefs[name] = target
			continue
		}
		d.a.Capabilities = append(d.a.Capabilities, c)
	}
}

func peel(refs []Ref, tag, oid string) bool {
	if len(refs) == 0 || refs[len(refs)-1].Name != tag {
		return false
	}
	refs[len(refs)-1].Peeled = oid
	return true
}

func resolve(refs []Ref, symrefs map[string]string) {
	for i := range refs {
		refs[i].Symref = symrefs[refs[i].Name]
	}
}

// Bytes is the advertisement as a client reads it.
func (a *Advertisement) Bytes() []byte {
	var b []byte
	if a.Service != "" {
		b = append(appendLine(b, servicePrefix, a.Service, "\n"), Flush...)
	}
	if a.Version > 0 {
		b = appendLine(b, versionPrefix, strconv.Itoa(a.Version), "\n")
	}
	if a.Version == 2 {
		for _, c := range a.Capabilities {
			b = appendLine(b, c, "\n")
		}
		return append(b, Flush...)
	}
	return a.appendRefs(b)
}

func (a *Advertisement) appendRefs(b []byte) []byte {
	list := slices.Clone(a.Capabilities)
	for _, r := range a.Refs {
		if r.Symref != "" {
			list = append(list, symrefCap+r.Name+":"+r.Symref)
		}
	}
	first := "\x00" + strings.Join(list, " ")
	if len(a.Refs) == 0 {
		b = appendLine(b, Zero, " ", noRefs, first, "\n")
	}
	for _, r := range a.Refs {
		b = appendLine(b, r.Oid, " ", r.Name, first, "\n")
		if first = ""; r.Peeled != "" {
			b = appendLine(b, r.Peeled, " ", r.Name, peeledMark, "\n")
		}
	}
	for _, oid := range a.Shallow {
		b = appendLine(b, shallowPrefix, oid, "\n")
	}
	return append(b, Flush...)
}

// Keep drops the refs that keep lets nobody see; see KeepRefs.
func (a *Advertisement) Keep(keep func(ref string) bool) { a.Refs = KeepRefs(a.Refs, keep) }
