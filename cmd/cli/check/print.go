package check

import (
	"fmt"
	"slices"
	"strings"
)

// Text is the report for a person: a line for each group of rules, below it
// what is wrong there, and one line about all that could not be checked.
func (r Report) Text() string {
	var w strings.Builder
	verdict := Failed
	if r.Passed {
		verdict = Passed
	}
	fmt.Fprintf(&w, "%s %s: %s\n", r.Target, r.TaskType, verdict)
	for _, group := range r.groups() {
		fmt.Fprintf(&w, "  %-10s%s\n", group[0].Group, tally(group))
		for _, rule := range group {
			if rule.Found != "" {
				fmt.Fprintf(&w, "    %-9s%s: %s\n", rule.Result, rule.ID, rule.What)
				fmt.Fprintf(&w, "    %-9sfound: %s\n    %-9sfix:   %s\n", "", rule.Found, "", rule.Hint)
			}
		}
	}
	if blamed := r.blamed(); len(blamed) > 0 {
		fmt.Fprintf(&w, "  %d rules could not be checked because %s failed\n", r.Count(Skipped), strings.Join(blamed, " and "))
	}
	fmt.Fprintf(&w, "  %d passed, %d failed, %d skipped, %d warnings\n",
		r.Count(Passed), r.Count(Failed), r.Count(Skipped), r.Count(Warning))
	return w.String()
}

// groups are the rules that stand together, in order.
func (r Report) groups() [][]Result {
	var all [][]Result
	for i, rule := range r.Rules {
		if i == 0 || rule.Group != r.Rules[i-1].Group {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], rule)
	}
	return all
}

// tally is what became of a group, at a glance.
func tally(group []Result) string {
	r := Report{Rules: group}
	if r.Count(Skipped) == len(group) {
		return "not checked"
	}
	parts := []string{}
	for _, verdict := range []string{Failed, Warning, Passed, Skipped} {
		if n := r.Count(verdict); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	return strings.Join(parts, ", ")
}

// blamed are the rules whose failure left others unjudged, in order.
func (r Report) blamed() []string {
	var all []string
	for _, rule := range r.Rules {
		if rule.Because != "" && !slices.Contains(all, rule.Because) {
			all = append(all, rule.Because)
		}
	}
	return all
}
