package outbound_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
)

func BenchmarkOpenDo(b *testing.B) {
	authority := upstream.NewAuthority(b)
	for name, s := range map[string]*upstream.Server{
		"http":  upstream.New(b),
		"https": upstream.NewTLS(b, authority.Config("127.0.0.1")),
	} {
		b.Run(name, func(b *testing.B) {
			c := client(b, outbound.Config{RootCAs: authority.Pool()})
			permit := loopback(b, "POST", s.URL()+"/v1/x")
			r := outbound.Request{Body: []byte(`{"a":1}`), ContentType: "application/json"}
			b.ReportAllocs()
			for b.Loop() {
				conn, err := c.Open(b.Context(), permit)
				if err != nil {
					b.Fatal(err)
				}
				if _, err = conn.Do(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFloor is the standard client with a connection a call.
func BenchmarkFloor(b *testing.B) {
	s := upstream.New(b)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL()+"/v1/x", strings.NewReader(`{"a":1}`))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
