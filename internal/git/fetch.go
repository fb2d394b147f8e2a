package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"weir/internal/gitwire"
	"weir/schemas"
)

func service(name string) (string, bool) {
	switch name {
	case schemas.GitUploadPack:
		return "upload-pack", true
	case schemas.GitReceivePack:
		return "receive-pack", true
	}
	return "", false
}

// Advertise writes the answer to GET info/refs: the service line where the protocol has one, and git's own
// advertisement. Protocol is 0 or 2; a push has none but 0, whatever is asked for. Nothing is written
// before git has said something.
func (g *Git) Advertise(ctx context.Context, id, name string, protocol int, v View, w io.Writer) error {
	command, ok := service(name)
	if !ok {
		return errors.New("git has no such service")
	}
	if command == "receive-pack" {
		protocol = 0
	}
	var before []byte
	if protocol != 2 {
		before = append(gitwire.AppendPacket(nil, []byte("# service="+name+"\n")), gitwire.Flush...)
	}
	t, j, err := g.uploadOrReceive(ctx, id, command, protocol, v)
	if err != nil {
		return err
	}
	defer t.end()
	j.args = append(j.args, "--advertise-refs", ".")
	if j.out = copyTo(w, before); protocol != 2 && !v.All {
		j.out = v.narrowed(j.out)
	}
	return g.run(t, j)
}

// UploadPack answers one request of a fetch. An error after something was written means that git could
// not go on; it has said why to the client before.
func (g *Git) UploadPack(ctx context.Context, id string, f gitwire.Fetch, v View, w io.Writer) error {
	protocol := 0
	if f.V2 {
		protocol = 2
	}
	t, j, err := g.uploadOrReceive(ctx, id, "upload-pack", protocol, v)
	if err != nil {
		return err
	}
	defer t.end()
	if !v.All {
		refusal, err := g.within(t, repository(j.dir), v, f)
		if err == nil && refusal != "" {
			_, err = w.Write(gitwire.AppendErr(nil, "upload-pack: "+refusal))
		}
		if err != nil || refusal != "" {
			return err
		}
	}
	j.args = append(j.args, ".")
	j.in = &source{Reader: bytes.NewReader(f.Request)}
	j.out = copyTo(w, nil)
	return g.run(t, j)
}

// uploadOrReceive prepares a process of either, with a turn for it.
func (g *Git) uploadOrReceive(ctx context.Context, id, command string, protocol int, v View) (slot, job, error) {
	if g.asked != nil {
		return slot{}, job{}, g.asked
	}
	r, err := g.repo(id)
	if err != nil {
		return slot{}, job{}, err
	}
	list, err := v.settings(r)
	if err != nil {
		return slot{}, job{}, err
	}
	j := job{args: []string{command, "--stateless-rpc"}, dir: string(r), env: []string{offline}}
	if command == "upload-pack" {
		j.args = append(j.args, "--strict")
		j.settings = append(uploading(), list...)
	} else {
		j.settings = append(g.receiving(false), list...)
	}
	if protocol == 2 {
		j.env = append(j.env, "GIT_PROTOCOL=version=2")
	}
	t, err := g.sending(ctx, v.Tenant)
	return t, j, err
}

// copyTo copies what git writes, with something before its first byte.
func copyTo(w io.Writer, before []byte) func(io.Reader) error {
	return func(r io.Reader) error {
		out := bufio.NewReaderSize(r, 64<<10)
		if _, err := out.Peek(1); err == io.EOF {
			return nil
		}
		_, err := io.Copy(w, io.MultiReader(bytes.NewReader(before), out))
		return err
	}
}
