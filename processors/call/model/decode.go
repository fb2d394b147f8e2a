package model

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"weir/internal/completion"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/schemas"
)

// decoder is one answer while it is read.
type decoder struct {
	*dial.Answer

	cfg      Config
	options  CallOptions
	sum      hash.Hash // of what came
	arrived  bool      // something of the body
	until    time.Time // when a stream is given up whose choices have all ended; zero: they have not
	protocol completion.Protocol
	whole    completion.Answer
	weighed  int // bytes of chunks since whole was measured
	response Response
}

var (
	errNoAnswer = errors.New("the answer is none of the protocol")
	errNoEnd    = errors.New("the stream ended before the answer did")
	errMuch     = errors.New("the answer is over the limit")
)

// decode reads an answer of any kind. What an answer is, its first byte tells better
// than its content type.
func (d *decoder) decode(ctx context.Context) (reply *call.Reply, err error) {
	d.sum = sha256.New()
	if d.Refused() { // what cannot be read of it does not matter
		raw, _ := d.Refusal(d)
		d.fault(completion.ReadFault(d.Scrub.Bytes(raw)))
		return d.reply()
	}
	d.protocol = completion.For(d.options.Dialect)
	d.whole = d.protocol.Answer(d.options.Options)
	defer func() {
		if d.options.Done != nil {
			if late := d.options.Done(ctx); late != nil && err == nil {
				reply, err = nil, late
			}
		}
		if err != nil && d.options.Broke != nil {
			if used := cmp.Or(d.whole.Spent(), d.response.Usage); used != nil {
				d.options.Broke(used)
			}
		}
	}()
	in := bufio.NewReader(d)
	begin, err := dial.Peek(in)
	switch {
	case errors.Is(err, io.EOF):
		return nil, d.Failure(schemas.UpstreamTruncated, errNoEnd)
	case err != nil:
		return nil, err
	case begin == '{', begin == '[':
		return d.document(ctx, in, begin == '[')
	case begin == '<':
		return nil, d.Failure(schemas.UpstreamProtocol, errNoAnswer)
	default:
		return d.events(ctx, in)
	}
}

// graces is how many times as long as for one byte a stream is waited for that has no end.
const graces = 12

// Read reads on, and takes the sum of what comes.
func (d *decoder) Read(p []byte) (int, error) {
	patience := d.options.Idle
	switch {
	case !d.until.IsZero():
		patience = max(min(cmp.Or(patience, d.cfg.Grace), d.cfg.Grace, time.Until(d.until)), 1)
	case !d.arrived && d.options.FirstByte > 0:
		patience = max(min(cmp.Or(patience, d.options.FirstByte), d.options.FirstByte-time.Since(d.Asked)), 1)
	}
	d.Patience(patience)
	n, err := d.Answer.Read(p)
	d.arrived = d.arrived || n > 0
	d.sum.Write(p[:n])
	return n, err
}

// fault takes an error of the provider.
func (d *decoder) fault(f *completion.Fault) {
	if f != nil {
		d.response.Fault = &completion.Fault{
			Status: f.Status, Message: d.Scrub.String(f.Message),
			Code: d.Scrub.String(f.Code), Type: d.Scrub.String(f.Type), Param: d.Scrub.String(f.Param),
		}
	}
}

// document reads an answer that is one document, or a list: some providers have their errors in one.
func (d *decoder) document(ctx context.Context, in io.Reader, list bool) (*call.Reply, error) {
	limit := d.cfg.Event
	if d.options.Dialect == schemas.DialectEmbeddings { // many of them are one document
		limit = d.cfg.Answer
	}
	raw, err := d.ReadAllBy(in, limit)
	if err != nil {
		return nil, err
	}
	if list {
		d.fault(completion.ReadFault(d.Scrub.Bytes(raw)))
		if d.response.Fault == nil {
			return nil, d.Failure(schemas.UpstreamProtocol, errNoAnswer)
		}
		return d.reply()
	}
	doc, err := d.clean("", raw)
	if err != nil {
		return nil, err
	}
	d.whole.Add(doc)
	d.tell()
	if doc.Fault != nil {
		d.fault(doc.Fault)
		return d.reply()
	}
	if doc, err = d.unspelled(doc); err != nil {
		return nil, err
	}
	options := d.options.Options
	options.Usage = true // of a whole answer it is no matter of choice
	d.response.Completion, _ = d.protocol.Answer(options).Give(doc)
	chunks, err := d.protocol.Split(d.response.Completion, d.options.Usage)
	if err != nil {
		return nil, d.Failure(schemas.UpstreamProtocol, err)
	}
	d.began()
	if d.options.Stream {
		for _, raw := range chunks {
			if err := d.options.Chunk(ctx, Piece{raw, d.response.Output}); err != nil {
				return nil, err
			}
		}
	}
	return d.reply()
}

// unspelled is a whole answer without the secrets that several of its strings spell, as its tokens do.
func (d *decoder) unspelled(doc completion.Chunk) (completion.Chunk, error) {
	held := newRedactor(d.Scrub, d.protocol)
	list, ok := held.add(doc)
	if !ok {
		return doc, d.Failure(schemas.UpstreamTooLarge, errMuch)
	}
	if len(list) == 0 {
		var err error
		if list, err = held.end(); err != nil {
			return doc, d.Failure(schemas.UpstreamProtocol, err)
		}
	}
	return list[0], nil
}

// clean reads an event, or a whole answer, without the secrets in it.
func (d *decoder) clean(name string, raw []byte) (completion.Chunk, error) {
	c, err := d.protocol.Read(name, raw)
	if err != nil {
		return c, d.Failure(schemas.UpstreamProtocol, err)
	}
	if now := d.Scrub.JSON(c.Raw); !bytes.Equal(now, c.Raw) {
		if c, err = d.protocol.Read(name, now); err != nil {
			return c, d.Failure(schemas.UpstreamProtocol, err)
		}
	}
	return c, nil
}

// tell takes what is known of the whole answer.
func (d *decoder) tell() {
	d.response.Usage, d.response.Output = d.whole.Usage(), d.whole.Output()
	d.response.Reasons, d.response.ProviderID = d.whole.Reasons(), d.whole.ProviderID()
}

// began takes the time of the first of the answer.
func (d *decoder) began() {
	if d.response.First == 0 {
		d.response.First = max(time.Since(d.Asked), 1)
	}
}

func (d *decoder) reply() (*call.Reply, error) {
	return d.Document(d.response, hex.EncodeToString(d.sum.Sum(nil)))
}
