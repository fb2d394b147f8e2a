package cli

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"weir/cmd/cli/runner"
)

// runnerLog tells a person or a program what a runner does.
type runnerLog struct {
	env    *Env
	asJSON bool
	mu     sync.Mutex
}

func (l *runnerLog) tell(n runner.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asJSON {
		if doc, err := encode(n); err == nil {
			fmt.Fprintf(l.env.Out, "%s\n", doc)
		}
		return
	}
	var b bytes.Buffer
	b.WriteString(time.Now().Format(time.TimeOnly) + "  ")
	if n.TaskID != "" {
		b.WriteString(n.TaskID + "  ")
	}
	b.WriteString(said(n))
	fmt.Fprintln(l.env.Out, b.String())
	for _, line := range n.Tail {
		fmt.Fprintln(l.env.Out, "  | "+line)
	}
}

// said is a notice as a sentence.
func said(n runner.Notice) string {
	text := n.What
	switch n.What {
	case runner.Ended:
		text = "ended"
		if n.Exit != nil {
			text = fmt.Sprintf("ended with exit status %d", *n.Exit)
		}
		if n.Reported {
			text += "; its agent has said how the task ended"
		} else {
			text += " and said nothing: the task is reported as failed"
		}
	case runner.Late:
		text = "ended at the task's deadline"
	case runner.Lost:
		text = "lost: the task is over for this runner (ended, canceled, expired, or leased again by another)"
	case runner.Released:
		text = "given back"
		if n.Error == "" {
			text += ", for the runner is to stop"
		}
	}
	if n.Error != "" {
		text += ": " + n.Error
	}
	if n.Output != "" {
		text += "; output in " + n.Output
	}
	return text
}
