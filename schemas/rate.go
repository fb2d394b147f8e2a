package schemas

import (
	"strconv"
	"strings"
	"time"
)

// ParseRate reads a rate as it is written everywhere: a count, a slash, and s,
// m or h, such as "10/s" or "1000/h". The count is 1 to 999999999, without a
// leading zero.
func ParseRate(s string) (count int, per time.Duration, ok bool) {
	number, unit, found := strings.Cut(s, "/")
	if !found || len(number) > 9 || number == "" || number[0] == '0' || strings.Trim(number, "0123456789") != "" {
		return 0, 0, false
	}
	switch unit {
	case "s":
		per = time.Second
	case "m":
		per = time.Minute
	case "h":
		per = time.Hour
	default:
		return 0, 0, false
	}
	count, err := strconv.Atoi(number)
	return count, per, err == nil
}
