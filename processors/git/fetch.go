package git

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/schemas"
)

// reader is the action of a fetch. A fetch without a task belongs to no action: it has an id of its own.
func reader(g task.Grant) schemas.Action {
	return schemas.Action{
		Tenant: g.Tenant, Kind: schemas.KindTask, ID: cmp.Or(g.TaskID, "fetch-"+uuid.NewString()), Principal: g.Principal, Entries: g.Entries,
	}
}

// shown are the refs that a grant reads. HEAD stands for a task's base where the upstream's own is not shown.
func shown(refs []gitwire.Ref, repo schemas.Repo, g task.Grant) []gitwire.Ref {
	refs = gitwire.KeepRefs(refs, func(ref string) bool { return g.Reads(ref, repo.DefaultBranch) })
	if g.TaskID == "" {
		return refs
	}
	return gitwire.AddHead(refs, schemas.RefOf(cmp.Or(g.Base, repo.DefaultBranch)))
}

func headers(accept string, v2 bool) []schemas.Header {
	list := []schemas.Header{{Name: "accept", Value: accept}}
	if v2 {
		list = append(list, schemas.Header{Name: "git-protocol", Value: "version=2"})
	}
	return append(list, schemas.Header{Name: "user-agent", Value: Agent})
}

// Advertise writes an upstream's answer to GET info/refs as the holder of a grant may
// see it: the refs that the grant reads, and no capability that would show others or that
// Weir does not pass on. Protocol is 0 or 2; an upstream that does not speak 2 answers in 0.
// Nothing is written before all of it is known.
func (f *Forward) Advertise(ctx context.Context, repo schemas.Repo, g task.Grant, service string, protocol int, w io.Writer) error {
	return f.discover(ctx, reader(g), repo, service, protocol, func(r io.Reader, mocked bool) error {
		if mocked {
			_, err := io.Copy(w, r)
			return err
		}
		a, err := gitwire.ReadAdvertisement(r)
		if err != nil {
			return publicError(err)
		}
		if a.Version == 2 && protocol != 2 {
			return publicError(gitwire.ErrMalformed)
		}
		a.Service = service
		if a.Refs = shown(a.Refs, repo, g); service == schemas.GitReceivePack {
			a.Refs = slices.DeleteFunc(a.Refs, func(r gitwire.Ref) bool { return r.Name == gitwire.HEAD })
		}
		a.Capabilities = passedOn(a, service)
		_, err = w.Write(a.Bytes())
		return err
	})
}

// discover asks for an advertisement. Of a push there is none in protocol 2.
func (f *Forward) discover(ctx context.Context, who schemas.Action, repo schemas.Repo, service string, protocol int, read readAnswer) error {
	v2 := protocol == 2 && service == schemas.GitUploadPack
	return f.ask(ctx, who, schemas.HTTPCall{
		Method: getMethod, URL: repo.UpstreamURL + "/info/refs?service=" + service, AllowlistKey: repo.AllowlistKey, Headers: headers("*/*", v2),
	}, nil, gitwire.AdvertisementType(service), read)
}

// passes are the names of the capabilities that are passed on. Left out are those by which a client
// could see or change more than its refs, filters, and what the upstream would do beside: push
// options, bundles elsewhere, refs wanted by name.
func passes(version int, service string) []string {
	switch {
	case version == 2:
		return []string{"agent", gitwire.CommandLsRefs, gitwire.CommandFetch, "object-format"}
	case service == schemas.GitReceivePack:
		return []string{
			gitwire.CapReport, gitwire.CapSideBand, gitwire.CapOfsDelta, gitwire.CapQuiet, gitwire.CapAtomic, "agent", "object-format",
		}
	}
	return []string{
		"multi_ack", "multi_ack_detailed", "no-done", "thin-pack", "side-band", gitwire.CapSideBand, gitwire.CapOfsDelta, "shallow",
		"deepen-since", "deepen-not", "deepen-relative", "no-progress", "include-tag", "agent", "object-format",
	}
}

func passedOn(a gitwire.Advertisement, service string) []string {
	names, features := passes(a.Version, service), []string{"shallow", "wait-for-done"} // of the command fetch
	var kept []string
	for _, c := range a.Capabilities {
		name, value, _ := strings.Cut(c, "=")
		if !slices.Contains(names, name) {
			continue
		}
		if a.Version == 2 && name == gitwire.CommandFetch {
			has := slices.DeleteFunc(strings.Fields(value), func(s string) bool { return !slices.Contains(features, s) })
			if c = name; len(has) > 0 {
				c += "=" + strings.Join(has, " ")
			}
		}
		kept = append(kept, c)
	}
	return kept
}

// UploadPack forwards one request of a fetch. A client without a view of all refs cannot name a
// hidden ref; the upstream decides about requests by object id alone.
func (f *Forward) UploadPack(ctx context.Context, repo schemas.Repo, g task.Grant, q gitwire.Fetch, w io.Writer) error {
	switch {
	case q.Command == "":
		return nil // the probe of a large request
	case len(q.WantRefs) > 0, q.Filter != "":
		return fault.New(schemas.InvalidRequest, "the repository is passed on from elsewhere: it has no partial clones, and refs are not wanted by name; fetch without a filter")
	}
	return f.fetch(ctx, reader(g), repo, q, func(r io.Reader, mocked bool) error {
		if q.Command != gitwire.CommandLsRefs || mocked {
			_, err := io.Copy(w, r)
			return publicError(err)
		}
		refs, err := gitwire.ReadRefs(r)
		if err != nil {
			return publicError(err)
		}
		_, err = w.Write(gitwire.AppendRefs(nil, shown(refs, repo, g)))
		return err
	})
}

func (f *Forward) fetch(ctx context.Context, who schemas.Action, repo schemas.Repo, q gitwire.Fetch, read readAnswer) error {
	result := gitwire.ResultType(schemas.GitUploadPack)
	return f.ask(ctx, who, schemas.HTTPCall{
		Method: postMethod, URL: repo.UpstreamURL + "/" + schemas.GitUploadPack, AllowlistKey: repo.AllowlistKey, Headers: headers(result, q.V2),
	}, q.Request, result, read)
}

// refs are the upstream's refs that begin with one of the prefixes, and HEAD.
func (f *Forward) refs(ctx context.Context, who schemas.Action, repo schemas.Repo, prefixes ...string) (refs []gitwire.Ref, err error) {
	var a gitwire.Advertisement
	err = f.discover(ctx, who, repo, schemas.GitUploadPack, 2, func(r io.Reader, _ bool) error {
		a, err = gitwire.ReadAdvertisement(r)
		if slices.Contains(a.Capabilities, "object-format=sha256") {
			err = fault.New(schemas.UpstreamProtocol, "the repository's objects have SHA-256 names, which Weir does not support; name one with SHA-1")
		}
		return publicError(err)
	})
	if err != nil || a.Version != 2 {
		return a.Refs, err
	}
	in := gitwire.Fetch{V2: true, Request: gitwire.LsRefs(append([]string{gitwire.HEAD}, prefixes...)...)}
	err = f.fetch(ctx, who, repo, in, func(r io.Reader, _ bool) error {
		refs, err = gitwire.ReadRefs(r)
		return publicError(err)
	})
	return refs, err
}

// find is a ref by its name; empty: there is none.
func find(refs []gitwire.Ref, name string) gitwire.Ref {
	for _, r := range refs {
		if r.Name == name {
			return r
		}
	}
	return gitwire.Ref{}
}

// publicError turns what is wrong with an upstream's answer into what may be said of it.
func publicError(err error) error {
	_, failed := errors.AsType[*fault.Call](err)
	switch _, refused := errors.AsType[*gitwire.RemoteError](err); {
	case failed: // the call did, and the answer may be malformed for that
		return err
	case refused:
		return &fault.Error{Code: schemas.HTTPFailure, Message: "the repository's upstream refuses; if a branch has just moved there, try again, and else look at the credential that the policy's entry adds", Cause: err}
	case errors.Is(err, gitwire.ErrMalformed):
		return &fault.Error{Code: schemas.UpstreamProtocol, Message: "the answer of the repository's upstream does not follow git's protocol", Cause: err}
	case errors.Is(err, gitwire.ErrTooLarge):
		return &fault.Error{Code: schemas.UpstreamTooLarge, Message: "the repository's upstream has more refs than are passed on", Cause: err}
	default:
		return err
	}
}
