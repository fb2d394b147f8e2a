package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
// refer to those of the others. The janitor's places are left out: they may be beyond the log's end.
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

// Snapshot reads a stream as it is now, without consumers: head gets what Restore needs to begin, then
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

// Restore creates a stream from a snapshot on a server that has none of that name. head is what Snapshot
// gave, and next returns one piece after the other, then io.EOF.
func Restore(ctx context.Context, server *embedded.Server, stream string, head []byte, next func() ([]byte, error)) error {
	nc, err := server.Connect(nats.Name("weir restore"))
	if err != nil {
		return err
	}
	defer nc.Close()
	ask := func(subject string, data []byte) (reply struct {
		Error   *jetstream.APIError `json:"error"`
		Deliver string              `json:"deliver_subject"`
	}, err error,
	) {
		m, err := timely(ctx, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, data) })
		if err == nil && len(m.Data) > 0 {
			err = json.Unmarshal(m.Data, &reply)
		}
		if err == nil && reply.Error != nil {
			err = reply.Error
		}
		return reply, err
	}
	begun, err := ask("$JS.API.STREAM.RESTORE."+stream, head)
	if err != nil {
		return err
	}
	for {
		piece, err := next()
		if errors.Is(err, io.EOF) {
			_, err = ask(begun.Deliver, nil) // the server answers when the stream is there
			return err
		}
		if err != nil {
			return err
		}
		if _, err := ask(begun.Deliver, piece); err != nil {
			return err
		}
	}
}

func timely(ctx context.Context, do func(context.Context) (*nats.Msg, error)) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, backupSilence)
	defer cancel()
	return do(ctx)
}
