package call

// Digest is what an attempt says of its request.
var Digest = digest
