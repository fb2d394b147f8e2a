package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// Behaviour is what the server does with one request. Make your own with
// Answer, Early or OnAccept.
type Behaviour struct {
	accept func(*Exchange) // on a new connection, before anything is read
	early  bool            // answer before the body is read
	answer func(*Exchange)
}

// Answer is a behaviour that acts once the whole request is in the ledger.
// The connection is closed afterwards unless it calls KeepAlive.
func Answer(f func(*Exchange)) Behaviour { return Behaviour{answer: f} }

// Early is Answer before the request's body is read; the ledger entry has none.
func Early(f func(*Exchange)) Behaviour { return Behaviour{early: true, answer: f} }

// OnAccept is a behaviour that acts on a new connection, before TLS. Unless it
// ends the connection, requests on it are then served by the next steps.
func OnAccept(f func(*Exchange)) Behaviour { return Behaviour{accept: f} }

// Exchange is one request and the connection it came on.
type Exchange struct {
	// Request is what was received. OnAccept has none.
	Request Received

	server     *Server
	bare, conn net.Conn
	connNumber int
	served     int
	reader     *bufio.Reader
	keep       bool
	reset      bool
	finished   bool
}

// next serves one request; false ends the connection.
func (x *Exchange) next() bool {
	if x.served > 0 {
		x.server.idle(x.bare, true)
		_, _ = x.reader.Peek(1) // what is wrong is found below
		x.server.idle(x.bare, false)
	}
	r, length, chunked, err := x.readHead()
	if err != nil {
		return false
	}
	x.served++
	path, _, _ := strings.Cut(r.Target, "?")
	b := x.server.onRequest(path)
	if !b.early {
		if r.Body, err = x.readBody(length, chunked); err != nil {
			return false // half a request is none
		}
	}
	x.Request, x.keep = r, false
	x.server.record(r)
	b.answer(x)
	return x.keep && !x.finished && !strings.EqualFold(r.Header("Connection"), "close")
}

// errNoHTTP says that what came is no request.
var errNoHTTP = errors.New("no HTTP")

func (x *Exchange) readHead() (r Received, length int64, chunked bool, err error) {
	line, err := x.readLine()
	if err != nil {
		return r, 0, false, err
	}
	r = Received{Conn: x.connNumber, Time: time.Now()}
	r.Method, line, _ = strings.Cut(line, " ")
	r.Target, r.Proto, _ = strings.Cut(line, " ")
	if !strings.HasPrefix(r.Proto, "HTTP/") { // such as the beginning of TLS, which may have empty lines in it
		return r, 0, false, errNoHTTP
	}
	for {
		line, err := x.readLine()
		if err != nil {
			return r, 0, false, err
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		r.Headers = append(r.Headers, schemas.Header{Name: name, Value: strings.Trim(value, " \t")})
	}
	if v := r.Header("Content-Length"); v != "" {
		length, err = strconv.ParseInt(v, 10, 64)
	}
	return r, length, strings.EqualFold(r.Header("Transfer-Encoding"), "chunked"), err
}

func (x *Exchange) readLine() (string, error) {
	line, err := x.reader.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

func (x *Exchange) readBody(length int64, chunked bool) ([]byte, error) {
	if !chunked {
		body := make([]byte, length)
		_, err := io.ReadFull(x.reader, body)
		return body, err
	}
	body, err := io.ReadAll(httputil.NewChunkedReader(x.reader))
	if err == nil {
		_, err = x.readLine() // the line after the last chunk; no trailers are expected
	}
	return body, err
}

// Served counts the requests on this connection, this one included.
func (x *Exchange) Served() int { return x.served }

// Write sends bytes as they are and reports whether the connection took them.
func (x *Exchange) Write(text string) bool {
	n, err := x.conn.Write([]byte(text))
	x.server.wrote(n)
	return err == nil
}

// KeepAlive serves another request on the connection, unless the caller said
// that it will close it.
func (x *Exchange) KeepAlive() { x.keep = true }

// Reset ends the connection with a reset; what was written is still delivered
// if the other side has read it by then.
func (x *Exchange) Reset() {
	x.reset, x.finished = true, true
	if c, ok := x.bare.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = x.bare.Close()
}

// Close ends the connection in the plain way, without a goodbye of TLS.
func (x *Exchange) Close() {
	x.reset, x.finished = true, true
	_ = x.bare.Close()
}

// Bare is the connection beneath TLS, or the connection itself.
func (x *Exchange) Bare() net.Conn { return x.bare }

// Stopped is closed when the server stops.
func (x *Exchange) Stopped() <-chan struct{} { return x.server.done }

// Await blocks until the other side closes the connection or the server stops.
// It reads, and drops, whatever still comes.
func (x *Exchange) Await() {
	_, _ = io.Copy(io.Discard, x.conn)
}

// Do lets a behaviour of the Answer kind act on an exchange: what a behaviour
// of your own ends with.
func Do(b Behaviour, x *Exchange) { b.answer(x) }
