package policy

import "weir/schemas"

// Class says what may be done with a call whose result is lost. A key makes a
// POST or PATCH repeatable only where the entry says that its target honours
// it. The method is in upper case; an unknown one is never repeated, and
// neither is one under the zero Permit where the entry matters.
func Class(method string, hasKey bool, p Permit) schemas.Class {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return schemas.ClassSafe
	case "PUT", "DELETE":
		return schemas.ClassIdempotent
	case "POST", "PATCH":
		if _, honoured := p.IdempotencyTTL(); hasKey && honoured {
			return schemas.ClassKeyed
		}
	}
	return schemas.ClassOnce
}
