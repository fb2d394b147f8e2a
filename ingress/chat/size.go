package chat

import (
	"strconv"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

const (
	// maxCount is the largest number that every reader of JSON takes for the same.
	maxCount = 1<<53 - 1
	// maxOutput is what stands for any larger answer: no budget bears it, and the
	// price of it is still a number.
	maxOutput = 1 << 40
	// maxChoices is likewise what stands for any more of them.
	maxChoices = 1 << 20
	// unsaid is how some clients write that an answer has no bound of theirs.
	unsaid = -1
)

// bounded reads how much may be answered where the request must say it.
func bounded(o *schemas.ChatOrder, doc document) error {
	if doc.absent(memberMax) {
		return refuse("/"+memberMax, "is missing; write how many tokens the answer may have at most")
	}
	if n, ok := whole(doc.values[memberMax]); ok && n == 0 { // such a request only fills the provider's cache
		o.Output = 1
		return nil
	}
	return sized(o, doc)
}

// sized reads how much may be answered.
func sized(o *schemas.ChatOrder, doc document) error {
	for _, name := range []string{memberN, memberBestOf} {
		n, err := count(doc, name)
		if err != nil {
			return err
		}
		o.Choices = max(o.Choices, n)
	}
	bound := true
	for _, name := range []string{memberMax, memberMaxAnswer, memberMaxOutput} {
		if n, ok := whole(doc.values[name]); ok && n == unsaid {
			bound = false // nor do the others, for whom reads this one
			continue
		}
		n, err := count(doc, name)
		if err != nil {
			return err
		}
		o.Output = max(o.Output, n)
	}
	switch {
	case !bound:
		o.Output = 0
	case o.Output > maxOutput/o.Choices:
		o.Output = maxOutput
	default:
		o.Output *= o.Choices
	}
	o.Choices = min(o.Choices, maxChoices)
	return nil
}

// count reads a number from 1; 0: it is not there.
func count(doc document, name string) (int64, error) {
	if doc.absent(name) {
		return 0, nil
	}
	n, ok := whole(doc.values[name])
	if !ok || n < 1 {
		return 0, refuse("/"+name, "must be a whole number from 1 to "+strconv.Itoa(maxCount))
	}
	return n, nil
}

// whole reads a whole number, also one that is written as another: 1024.0, 1e3.
func whole(v gjson.Result) (int64, bool) {
	f := v.Num
	if v.Type != gjson.Number || f < -maxCount || f > maxCount {
		return 0, false
	}
	n := int64(f)
	return n, float64(n) == f
}
