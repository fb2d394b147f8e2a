package sim_test

import (
	"errors"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"weir/internal/fault"
	"weir/schemas"
)

// publisher is the broker's for evidence and dead letters: what it hears nothing of it
// sends again under the same id, which the stream knows again for a while.
type publisher struct{ p *port }

func (b publisher) Close() error { return nil }

func (b publisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		until := time.Now().Add(5 * time.Second)
		for {
			err := b.once(topic, m)
			if !errors.Is(err, fault.ErrUnavailable) || time.Now().After(until) || m.Context().Err() != nil {
				if err != nil {
					return err
				}
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

func (b publisher) once(topic string, m *message.Message) error {
	if b.p.w.mutant.loses(topic, m.UUID) {
		return nil
	}
	_, err := b.p.Append(m.Context(), schemas.Append{Subject: topic, Data: m.Payload, Guard: idMark + b.p.w.mutant.id(m.UUID)})
	return err
}

// idMark begins the guard of an append that is none: it holds the message's id.
const idMark = "id:"

// repeated reports whether the window knows a record, and has it know it from now on.
func (w *world) repeated(subject, id string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(subject, "weir."), ".")
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known := w.ids[root+id]
	if known && time.Since(at) < window {
		return true
	}
	w.ids[root+id] = time.Now()
	return false
}
