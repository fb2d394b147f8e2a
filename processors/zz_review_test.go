package processors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/weirtest/rulebook"
)

// every write of the set, whatever it is, makes each resting action write more.
func TestZZAmplify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		d.put(t, "mine", "one")
		for range 20 {
			time.Sleep(time.Second)
			d.book.Put(t, rulebook.Delay("d", anywhere, 60_000), rulebook.Mock("m", "http://other.example/*", 200, ""))
			d.pipeline.RulesChanged("mine")
			<-d.handled
		}
		waits := 0
		for _, ev := range d.state(t, "mine", "one").Events {
			if ev.Waiting != nil {
				waits++
				t.Log(ev.Waiting.Until)
			}
		}
		t.Log("waits", waits)
	})
}

// a delay rule that expires while it holds a call back
func TestZZExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		r := rulebook.Delay("d", anywhere, 60_000)
		r.ExpiresAt = time.Now().Add(5 * time.Second)
		d.book.Put(t, r)
		d.put(t, "mine", "one")
		t.Log("alarm in", time.Until(d.alarm.at["one"]))
	})
}
