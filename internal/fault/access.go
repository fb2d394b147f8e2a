package fault

import "weir/schemas"

// Scope is nil for whoever has a scope, and FORBIDDEN for everybody else.
func Scope(granted []string, scope string) error {
	if schemas.Grants(granted, scope) {
		return nil
	}
	return New(schemas.Forbidden, "the token lacks the scope "+scope)
}

// Operator is nil for an admin of the operator's tenant, and FORBIDDEN for one
// of any other. What completes "only an admin of the operator's tenant may".
func Operator(tenant, what string) error {
	if tenant == schemas.Operator {
		return nil
	}
	return New(schemas.Forbidden, "only an admin of the tenant "+schemas.Operator+" may "+what)
}
