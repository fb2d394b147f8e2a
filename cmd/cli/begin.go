package cli

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"weir/schemas"
)

// beginFlags say when what a command asks for begins.
type beginFlags struct {
	delay, notBefore, priority string
}

func (f *beginFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.delay, "delay", "", "begin this much later, such as 30s or 1h30m; not with --not-before")
	flags.StringVar(&f.notBefore, "not-before", "", "begin at this time at the earliest, such as 2026-01-31T09:00:00Z")
	flags.StringVar(&f.priority, "priority", "", "high: go before what is not and waits for a worker (default normal)")
}

// header adds what the flags say to a request's header. What the server would refuse is
// refused here, in the words of the command line.
func (f *beginFlags) header(h http.Header) error {
	for _, flag := range []struct {
		value, header string
		check         func(string) error
	}{
		{f.delay, schemas.HeaderDelay, checkDelay},
		{f.notBefore, schemas.HeaderNotBefore, checkNotBefore},
		{f.priority, schemas.HeaderPriority, checkPriority},
	} {
		if flag.value == "" {
			continue
		}
		if err := flag.check(flag.value); err != nil {
			return usageError{err}
		}
		h.Set(flag.header, flag.value)
	}
	if f.delay != "" && f.notBefore != "" {
		return usageError{errors.New("--delay and --not-before say the same in two ways; give one of them")}
	}
	return nil
}

func checkDelay(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < 0 {
		return fmt.Errorf("--delay %q is not a duration such as 30s, 5m or 1h30m", s)
	}
	return nil
}

func checkNotBefore(s string) error {
	if _, err := time.Parse(time.RFC3339, s); err != nil {
		return fmt.Errorf("--not-before %q is not a time with its zone, such as 2026-01-31T09:00:00Z or 2026-01-31T09:00:00+01:00", s)
	}
	return nil
}

func checkPriority(s string) error {
	if !schemas.Priority(s).Valid() {
		return fmt.Errorf("--priority %q is neither high nor normal", s)
	}
	return nil
}
