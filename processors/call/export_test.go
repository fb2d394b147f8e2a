package call

// Digest is what an attempt says of its request.
var Digest = digest

// Route is what an attempt tells of where an agent or a model is asked.
func Route(url string) string { return route(url) }
