package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The most that ECHO takes of each of its own inputs.
const (
	MaxEchoSteps    = 1000
	MaxEchoInterval = time.Minute
)

// Echo is what ECHO goes by among its inputs. All others are only answered.
type Echo struct {
	// Steps is how many progress events come before the answer: 1 to
	// MaxEchoSteps, by the member steps; default 1.
	Steps int
	// Interval is the time before each of them: 0 to MaxEchoInterval, by the member
	// interval_ms; default 0.
	Interval time.Duration
}

// EchoError says which of ECHO's own inputs it does not take.
type EchoError struct {
	Member   string
	From, To int
}

func (e *EchoError) Error() string {
	return fmt.Sprintf("must be a whole number from %d to %d", e.From, e.To)
}

// ReadEcho reads ECHO's own inputs, by these very names. A number counts as whole
// where it is written as one: 1.0 and 1e3 are not. Its errors are *EchoError where
// the inputs are an object.
func ReadEcho(inputs json.RawMessage) (Echo, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &members); err != nil {
		return Echo{}, errors.New("the inputs are no object")
	}
	e, interval := Echo{Steps: 1}, 0
	for _, m := range []struct {
		EchoError
		into *int
	}{
		{EchoError{"steps", 1, MaxEchoSteps}, &e.Steps},
		{EchoError{"interval_ms", 0, int(MaxEchoInterval.Milliseconds())}, &interval},
	} {
		text := strings.Trim(string(members[m.Member]), " \t\r\n")
		if text == "" || text == "null" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < m.From || n > m.To {
			return Echo{}, &m.EchoError
		}
		*m.into = n
	}
	e.Interval = time.Duration(interval) * time.Millisecond
	return e, nil
}
