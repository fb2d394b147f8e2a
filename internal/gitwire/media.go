package gitwire

// The media types of git's smart protocol over HTTP, by the service.

// AdvertisementType is that of the refs that a service begins with.
func AdvertisementType(service string) string { return "application/x-" + service + "-advertisement" }

// RequestType is that of what a client sends.
func RequestType(service string) string { return "application/x-" + service + "-request" }

// ResultType is that of the answer.
func ResultType(service string) string { return "application/x-" + service + "-result" }
