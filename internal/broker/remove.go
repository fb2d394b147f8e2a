package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"weir/internal/fault"
)

// Remove deletes one message of a stream that lets messages be deleted, and asks again where
// no answer comes. That it is not there, or not any more, is no error.
func (b *Broker) Remove(ctx context.Context, stream string, seq uint64) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	body, err := json.Marshal(struct {
		Seq     uint64 `json:"seq"`
		NoErase bool   `json:"no_erase"` // it is not written over: there is nothing secret in it
	}{seq, true})
	if err != nil {
		return err
	}
	return insist(func(within time.Duration) error {
		c, err := b.reads.send(&nats.Msg{Subject: "$JS.API.STREAM.MSG.DELETE." + stream, Data: body}, nil)
		if err != nil {
			return err
		}
		if err := b.reads.wait(ctx, c, within); err != nil {
			return err
		}
		return removed(c.reply)
	})
}

// removed reads the answer to a deletion.
func removed(m *nats.Msg) error {
	const notThere, notDeleted = 10043, 10057
	var answer struct {
		Success bool `json:"success"`
		Error   *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case status(m) != "", err != nil:
		return fmt.Errorf("%w: the answer cannot be read", fault.ErrUnavailable)
	case answer.Success:
		return nil
	case answer.Error == nil:
		return fmt.Errorf("%w: an answer that says nothing", fault.ErrUnavailable)
	case answer.Error.Code == notThere, answer.Error.Code == notDeleted && (answer.Error.Text == "message not found" || answer.Error.Text == "no message found" || answer.Error.Text == "deleted message"):
		return nil
	}
	return refused(answer.Error.Code, answer.Error.Text)
}
