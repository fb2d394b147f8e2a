// Package published holds the generated documents as the program carries them:
// the JSON Schemas of everything public, and the OpenAPI description.
package published

import "embed"

// Files are the documents by their file names.
//
//go:embed *.json
var Files embed.FS

// OpenAPI is the description of the HTTP surfaces, in JSON. The caller may change it.
func OpenAPI() []byte {
	text, _ := Files.ReadFile("openapi.json") // it is part of the program
	return text
}
