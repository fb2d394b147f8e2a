//go:build e2e

package canary_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

// subjectConfig is TLS with a certificate that nobody trusts and whose every
// name is the canary.
func subjectConfig(tb testing.TB, text string) *tls.Config {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	name := pkix.Name{CommonName: text, Organization: []string{text}, OrganizationalUnit: []string{text}}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: name, Issuer: name, DNSNames: []string{strings.ToLower(text) + ".example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(tb, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// answers sets what the plain upstream says at each path. Each behaviour says
// canaries of its own.
func (h *house) answers() {
	g := h.g
	full := func(class string, status int) upstream.Behaviour { return upstream.Raw(fullAnswer(g, class, status)) }
	h.plain.Handle("/ok", full("ok", http.StatusOK))
	h.plain.Handle("/shadow", full("shadow", http.StatusOK))
	h.good.Handle("/ok", full("tls ok", http.StatusOK))
	for _, status := range statuses() {
		h.plain.Handle(fmt.Sprintf("/status/%d", status), full(fmt.Sprintf("status %d", status), status))
	}
	h.plain.Handle("/busy", full("busy", http.StatusServiceUnavailable), full("busy", http.StatusTooManyRequests), full("calm", http.StatusOK))
	h.plain.Handle("/never", full("never", http.StatusServiceUnavailable))
	h.plain.Handle("/later", upstream.Raw("HTTP/1.1 503 "+g.plant("later reason")+"\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"))
	h.plain.Handle("/moved", upstream.Redirect(http.StatusFound, "http://elsewhere.example/"+g.plant("location")+"?q="+g.plant("location query")))
	h.plain.Handle("/hop", upstream.Redirect(http.StatusFound, "/hopped/"+g.plant("hop location")+"?q="+g.plant("hop query")))
	h.plain.Handle("/hop/away", upstream.Redirect(http.StatusFound, "http://"+tidy(g.plant("hop host"))+".open.example/"))
	h.plain.Handle("/reset", upstream.ResetBeforeResponse())
	h.plain.Handle("/close", upstream.CloseBeforeResponse())
	h.plain.Handle("/hang", upstream.Hang())
	h.plain.Handle("/garbage", upstream.Raw("SPEAKS "+g.plant("garbage")+"\r\n\r\n"))
	h.plain.Handle("/badheader", upstream.Raw("HTTP/1.1 200 OK\r\n"+g.plant("malformed header")+"\r\n\r\n"))
	h.plain.Handle("/short", upstream.Raw("HTTP/1.1 200 "+g.plant("short reason")+"\r\nContent-Length: 9999\r\n\r\n"+g.plant("short body")))
	h.plain.Handle("/chunks", upstream.Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz"+g.plant("bad chunk")+"\r\n"))
	h.plain.Handle("/large", upstream.Respond(http.StatusOK, strings.Repeat(g.plant("large")+" ", 4000)))
	h.plain.Handle("/headers", upstream.Respond(http.StatusOK, "", upstream.Header("X-Long", strings.Repeat(g.plant("long header")+" ", 400))))
	h.plain.Handle("/coding", upstream.Encoding(g.plant("coding"), g.plant("coded body")))
	h.plain.Handle("/zip", upstream.Encoding("gzip", g.plant("not zipped")))
	h.plain.Handle("/zipped", upstream.Gzip(g.plant("zipped")))
	h.plain.Handle("/text", upstream.Respond(http.StatusOK, g.plant("text body"), upstream.Header("Content-Type", "text/plain; name="+g.plant("media type"))))
	h.plain.Handle("/binary", upstream.Respond(http.StatusOK, "\xff\xfe"+toUTF16(g.plant("utf16 body"), false)))
	h.plain.Handle("/bare", upstream.Respond(http.StatusOK, g.plant("bare body")))
	h.plain.Handle("/echo", echo())
	h.plain.Handle("/echo/busy", echoStatus(http.StatusInternalServerError))
}

// statuses are all of RFC 9110 and the registry that say that it went wrong.
func statuses() (all []int) {
	for s := 400; s < 600; s++ {
		if http.StatusText(s) != "" {
			all = append(all, s)
		}
	}
	return all
}

// fullAnswer has a canary in every place of an answer.
func fullAnswer(g *garden, class string, status int) string {
	of := func(place string) string { return g.plant("upstream " + class + " " + place) }
	body := fmt.Sprintf(`{"ok":true,%q:%q,"deep":[{%q:[%q,1.50]}]}`, of("key"), of("value"), of("deep key"), of("deep value"))
	name := of("header name")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, of("reason"))
	for _, line := range []string{
		"Content-Type: application/json; profile=" + of("media type"),
		name + ": " + of("header value"),
		"Set-Cookie: " + of("cookie name") + "=" + of("cookie") + "; Path=/" + of("cookie path"),
		"Location: http://plain.example/" + of("location") + "?q=" + of("location query"),
		"ETag: \"" + of("etag") + "\"",
		"WWW-Authenticate: Basic realm=\"" + of("realm") + "\"",
		"Server: " + of("server"), "Via: 1.1 " + of("via"), "Link: <" + of("link") + ">", "Content-Disposition: attachment; filename=" + of("filename"),
		"Trailer: X-Trailer, " + of("trailer name"),
		"Transfer-Encoding: chunked",
	} {
		b.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&b, "\r\n%x;ext=%s\r\n%s\r\n0\r\nX-Trailer: %s\r\n\r\n", len(body), of("chunk extension"), body, of("trailer"))
	return b.String()
}

// echo answers with everything that it got, so that what is to be kept from the
// owner comes back as their answer.
func echo() upstream.Behaviour { return echoStatus(http.StatusOK) }

func echoStatus(status int) upstream.Behaviour {
	return upstream.Answer(func(x *upstream.Exchange) {
		var b strings.Builder
		b.WriteString(x.Request.Method + " " + x.Request.Target + "\n")
		var fields []string
		for _, h := range x.Request.Headers {
			b.WriteString(h.Name + ": " + h.Value + "\n")
			fields = append(fields, h.Value)
		}
		b.WriteString("\n" + string(x.Request.Body))
		text := b.String()
		x.Write(upstream.Message(x.Request.Method, status, text, upstream.Header("Content-Type", "text/plain"),
			upstream.Header("X-Echo", strings.Join(fields, " ")), upstream.Header("Set-Cookie", "s="+strings.Join(fields, "-"))))
	})
}

func fullText(text string) upstream.Behaviour { return upstream.Respond(http.StatusOK, text) }
