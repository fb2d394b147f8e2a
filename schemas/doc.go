// Package schemas holds every contract of Weir: the records on the log and their subjects, the
// closed vocabularies and the bodies of the public surfaces. It imports the standard library only,
// so that every package, and any program outside Weir, can depend on it.
package schemas

//go:generate go run ./gen
