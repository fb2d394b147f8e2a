// Package openapi gives the OpenAPI description of the HTTP surfaces. It is
// generated with the schemas, from the same types, and linked in as it is: a
// node that starts reflects nothing.
package openapi

import published "weir/schemas/json"

// Document is the description, in JSON. The caller may change it.
func Document() []byte {
	text, err := published.Files.ReadFile("openapi.json")
	if err != nil { // the file is part of the program
		return []byte("{}")
	}
	return text
}
