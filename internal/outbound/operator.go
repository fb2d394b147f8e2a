package outbound

import (
	"net/http"
	"time"
)

// Operator returns a client for an address that the operator has named for the node's own
// sake, such as a collector of traces: no call of an action's goes by it, and no policy. It
// uses no proxy and follows no redirect, so that what it sends goes where the configuration
// says and nowhere else. It is the caller's to close its idle connections.
func Operator() *http.Client {
	return &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
