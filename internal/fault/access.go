package fault

import (
	"strings"

	"weir/schemas"
)

// Scope is nil for whoever has one of the scopes, and FORBIDDEN for everybody else.
func Scope(granted []string, scopes ...string) error {
	for _, s := range scopes {
		if schemas.Grants(granted, s) {
			return nil
		}
	}
	return New(schemas.Forbidden, "the token lacks the scope "+strings.Join(scopes, " or "))
}

// Operator is nil for an admin of the operator's tenant, and FORBIDDEN for one
// of any other. What completes "only an admin of the operator's tenant may".
func Operator(tenant, what string) error {
	if tenant == schemas.Operator {
		return nil
	}
	return New(schemas.Forbidden, "only an admin of the tenant "+schemas.Operator+" may "+what)
}
