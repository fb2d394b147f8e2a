package program

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// Ask sends one request, of JSON where it has a body, and reads the answer. The header is names
// and values in turn.
func Ask(ctx context.Context, method, url, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req) //nolint:forbidigo // a client of Weir, from outside
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}
