package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
func BackupStreams(layout schemas.Layout) []string {
	positions := access.Named(schemas.JanitorBucket).Stream()
	return slices.DeleteFunc(access.Streams(layout.Partitions), func(name string) bool { return name == positions })
}

// snapshotAnswer is the server's answer to a request about a snapshot. Config and State are also the
// request to restore it.
type snapshotAnswer struct {
	Error   *jetstream.APIError `json:"error,omitempty"`
	Config  json.RawMessage     `json:"config,omitempty"`
	State   json.RawMessage     `json:"state,omitempty"`
	Deliver string              `json:"deliver_subject,omitempty"` // where a restore takes the pieces
}

// Snapshot reads a stream as it is now, without consumers: head gets what a Restorer needs to begin, then
// chunk gets each piece. A piece is only valid during the call. It returns fault.ErrNotFound if there is
// no such stream.
func (b *Broker) Snapshot(ctx context.Context, stream string, head, chunk func([]byte) error) error {
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection is gone if this fails
	answer, err := requestSnapshot(ctx, b.nc, "$JS.API.STREAM.SNAPSHOT."+stream,
		fmt.Appendf(nil, `{"deliver_subject":%q,"no_consumers":true,"chunk_size":%d}`, inbox, backupChunk))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fault.ErrNotFound
	}
	if err == nil {
		doc, _ := json.Marshal(answer) //nolint:errchkjson // parts of a valid document
		err = head(doc)
	}
	for err == nil {
		m, failed := timely(ctx, sub.NextMsgWithContext)
		if failed != nil {
			return failed
		}
		if len(m.Data) == 0 { // the end
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return fmt.Errorf("the server ended the snapshot: %s %s", status, m.Header.Get("Description"))
			}
			return nil
		}
		if err = chunk(m.Data); err == nil && m.Reply != "" {
			err = wrap(b.nc.Publish(m.Reply, nil))
		}
	}
	return err
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
		var answer snapshotAnswer
		answer, err = requestSnapshot(ctx, r.nc, "$JS.API.STREAM.RESTORE."+stream, head)
		r.pieces = answer.Deliver
	}
	return err
}

// Add adds a piece to the stream that was begun.
func (r *Restorer) Add(ctx context.Context, piece []byte) error {
	if r.pieces == "" {
		return errors.New("it has no head: the file is not a backup of Weir")
	}
	_, err := requestSnapshot(ctx, r.nc, r.pieces, piece)
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

func requestSnapshot(ctx context.Context, nc *nats.Conn, subject string, data []byte) (answer snapshotAnswer, err error) {
	m, err := timely(ctx, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, data) })
	if err == nil && len(m.Data) > 0 {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	return answer, err
}

func timely(ctx context.Context, do func(context.Context) (*nats.Msg, error)) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, backupSilence)
	defer cancel()
	m, err := do(ctx)
	return m, wrap(err)
}
