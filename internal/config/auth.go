package config

import (
	"net"
	"net/netip"
	"path/filepath"

	"weir/schemas"
)

// The values of auth.mode.
const (
	AuthOpen   = "open"
	AuthTokens = "tokens"
)

// Open reports whether requests need no token.
func (c Config) Open() bool { return c.Auth.Mode == AuthOpen }

// deriveAuth asks for tokens wherever other machines may reach the port.
func deriveAuth(c *Config, given origins) {
	if !given.has("auth.mode") {
		c.Auth.Mode = AuthTokens
		if Loopback(c.Listen) {
			c.Auth.Mode = AuthOpen
		}
	}
}

// AdminTokenFile is where the first admin token is written; empty: this node makes none.
func (c Config) AdminTokenFile() string {
	if c.Auth.AdminTokenFile == "" && c.Embedded() {
		return filepath.Join(c.Data, "admin.token")
	}
	return c.Auth.AdminTokenFile
}

// Loopback reports whether an address, host:port, can be reached from this
// machine alone.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func (r *reader) checkAuth(c *Config) {
	r.oneOf("auth.mode", c.Auth.Mode, AuthOpen, AuthTokens)
	if r.hostPort("listen", c.Listen) && c.Open() && !Loopback(c.Listen) {
		r.wrong("auth.mode", "is open and %s can be reached from other machines: anybody there could act; "+
			"use tokens, or listen on a loopback address such as 127.0.0.1:8092", c.Listen)
	}
	if _, _, ok := schemas.ParseRate(c.Auth.Rate); !ok {
		r.wrong("auth.rate", "is not a count a second, minute or hour, such as 500/s")
	}
	between(r, "auth.streams", c.Auth.Streams, 1, 1_000_000)
}

func (r *reader) checkSecrets(s Secrets) {
	switch {
	case s.AgeFile != "" && s.AgeIdentity == "":
		r.wrong("secrets.age_identity", "is missing; name the file with the identity that decrypts secrets.age_file")
	case s.AgeFile == "" && s.AgeIdentity != "":
		r.wrong("secrets.age_file", "is missing; name the encrypted file, or remove secrets.age_identity")
	}
}
