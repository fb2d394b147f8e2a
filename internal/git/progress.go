package git

import (
	"regexp"
	"strconv"

	"weir/schemas"
)

// percent is how git says how far it is, or has the other side say it.
var percent = regexp.MustCompile(`^(remote: )?(Counting|Compressing|Receiving|Unpacking|Resolving) (?:objects|deltas): +[0-9]{1,3}% \(([0-9]{1,10})/([0-9]{1,10})\)`)

// phaseOf reads git's word for what it is at. One that the other side says may not be taken
// for one of this side's.
func phaseOf(word string) (schemas.RepoPhase, bool) {
	switch word {
	case "remote: Counting":
		return schemas.RepoCounting, true
	case "remote: Compressing":
		return schemas.RepoCompressing, true
	case "Receiving", "Unpacking":
		return schemas.RepoReceiving, true
	case "Resolving":
		return schemas.RepoResolving, true
	default:
		return "", false
	}
}

// progressOf reads a line of what git says.
func progressOf(line string) (p schemas.RepoProgress, ok bool) {
	m := percent.FindStringSubmatch(line)
	if m == nil {
		return p, false
	}
	p.Phase, ok = phaseOf(m[1] + m[2])
	done, err := strconv.Atoi(m[3])
	total, wrong := strconv.Atoi(m[4])
	p.Done, p.Total = done, total
	return p, ok && err == nil && wrong == nil && done <= total
}

// progressTo passes on what lines say of progress.
func progressTo(tell func(schemas.RepoProgress)) func(string) {
	if tell == nil {
		return nil
	}
	return func(line string) {
		if p, ok := progressOf(line); ok {
			tell(p)
		}
	}
}
