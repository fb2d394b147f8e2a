package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

const (
	// backupChunk is the size of the pieces of a snapshot: the largest that the server sends.
	backupChunk = 1 << 20
	// backupSilence is how long a server may take for the next piece.
	backupSilence = 30 * time.Second
)

// BackupStreams are the streams of a backup in their order: the log comes first, because its records
// refer to the others. The janitor's positions are left out: they may be beyond the log's end.
func BackupStreams(layout schemas.Layout) (names []string) {
	for _, name := range access.Streams(layout.Partitions) {
		if name != "KV_"+schemas.JanitorBucket {
			names = append(names, name)
		}
	}
	return names
}

// snapshotAnswer is the server's answer to a request for a snapshot, and with these members also the
// request to restore it.
type snapshotAnswer struct {
	Error  *jetstream.APIError `json:"error,omitempty"`
	Config json.RawMessage     `json:"config"`
	State  json.RawMessage     `json:"state"`
}

// Snapshot reads a stream as it is now, without consumers: head gets what a Restorer needs to begin, then
// chunk gets each piece. A piece is only valid during the call. It returns fault.ErrNotFound if there is
// no such stream.
func (b *Broker) Snapshot(ctx context.Context, stream string, head, chunk func([]byte) error) error {
	nc := b.js.Conn()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection is gone if this fails
	request, err := json.Marshal(map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": backupChunk})
	if err != nil {
		return err
	}
	first, err := timely(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return nc.RequestWithContext(ctx, "$JS.API.STREAM.SNAPSHOT."+stream, request)
	})
	if err != nil {
		return wrap(err)
	}
	var answer snapshotAnswer
	if err := json.Unmarshal(first.Data, &answer); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return fault.ErrNotFound
	case answer.Error != nil:
		return answer.Error
	}
	doc, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	if err := head(doc); err != nil {
		return err
	}
	for {
		m, err := timely(ctx, sub.NextMsgWithContext)
		if err != nil {
			return wrap(err)
		}
		if len(m.Data) == 0 { // the end
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return fmt.Errorf("the server ended the snapshot: %s %s", status, m.Header.Get("Description"))
			}
			return nil
		}
		if err := chunk(m.Data); err != nil {
			return err
		}
		if m.Reply != "" {
			if err := nc.Publish(m.Reply, nil); err != nil {
				return wrap(err)
			}
		}
	}
}

// Restorer creates streams from snapshots, one after the other.
type Restorer struct {
	nc *nats.Conn
	// pieces is the subject that takes the pieces of the stream that was begun; empty: none was.
	pieces string
}

// NewRestorer returns a Restorer for a server that has none of the streams.
func NewRestorer(server *embedded.Server) (*Restorer, error) {
	nc, err := server.Connect(nats.Name("weir restore"))
	return &Restorer{nc: nc}, err
}

// Begin ends the stream before, and begins one. head is what Snapshot gave.
func (r *Restorer) Begin(ctx context.Context, stream string, head []byte) error {
	err := r.End(ctx)
	if err == nil {
		r.pieces, err = r.request(ctx, "$JS.API.STREAM.RESTORE."+stream, head)
	}
	return err
}

// Add adds a piece to the stream that was begun.
func (r *Restorer) Add(ctx context.Context, piece []byte) error {
	if r.pieces == "" {
		return errors.New("it has no head: the file is not a backup of Weir")
	}
	_, err := r.request(ctx, r.pieces, piece)
	return err
}

// End returns when the stream that was begun is there, if one was.
func (r *Restorer) End(ctx context.Context) error {
	if r.pieces == "" {
		return nil
	}
	err := r.Add(ctx, nil)
	r.pieces = ""
	return err
}

// Close ends the connection; a stream without its end is not created.
func (r *Restorer) Close() { r.nc.Close() }

func (r *Restorer) request(ctx context.Context, subject string, data []byte) (deliver string, err error) {
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Deliver string              `json:"deliver_subject"`
	}
	m, err := timely(ctx, func(ctx context.Context) (*nats.Msg, error) { return r.nc.RequestWithContext(ctx, subject, data) })
	if err == nil && len(m.Data) > 0 {
		err = json.Unmarshal(m.Data, &reply)
	}
	if err == nil && reply.Error != nil {
		err = reply.Error
	}
	return reply.Deliver, err
}

func timely(ctx context.Context, do func(context.Context) (*nats.Msg, error)) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, backupSilence)
	defer cancel()
	return do(ctx)
}
