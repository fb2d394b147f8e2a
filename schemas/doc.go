// Package schemas holds every contract of Weir: the records on the log, the
// subjects they lie on, the closed vocabularies and the bodies of the public
// surfaces. It imports the standard library only, so that every room, and any
// program outside Weir, can depend on it.
package schemas

//go:generate go run ./gen
