package runner

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// RelayCommand is the hidden command of this program that runs in the sandbox.
const RelayCommand = "runner-relay"

// ways lead from the sockets of a sandbox to Weir and to its forward proxy.
type ways struct {
	server  *http.Server
	forward *http.Transport
	proxy   net.Listener
	work    sync.WaitGroup
	end     context.CancelFunc
}

// openWays listens on sockets in a directory. The server may have another scheme and a path, which is why its
// requests are forwarded; those to the proxy are passed on as bytes.
func openWays(dir, server, proxy string) (*ways, error) {
	base, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	own, err := lc.Listen(context.Background(), "unix", filepath.Join(dir, serverSock))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	forward := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	w := &ways{forward: forward, end: end}
	w.server = &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Handler: &httputil.ReverseProxy{
		Transport: forward, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(base)
			p.Out.Host, p.Out.URL.RawQuery = base.Host, p.In.URL.RawQuery
		},
	}}
	w.work.Go(func() { _ = w.server.Serve(own) })
	if proxy == "" {
		return w, nil
	}
	if w.proxy, err = lc.Listen(context.Background(), "unix", filepath.Join(dir, proxySock)); err != nil {
		w.close()
		return nil, err
	}
	w.work.Go(func() { relay(ctx, w.proxy, "tcp", proxy) })
	return w, nil
}

func (w *ways) close() {
	w.end()
	_ = w.server.Close()
	if w.proxy != nil {
		_ = w.proxy.Close()
	}
	w.work.Wait()
	w.forward.CloseIdleConnections()
}

// relay passes the bytes of each connection on to an address, until the listener is closed. The end of ctx cuts
// the connections.
func relay(ctx context.Context, from net.Listener, network, to string) {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		conn, err := from.Accept()
		if err != nil {
			return
		}
		work.Go(func() {
			defer conn.Close()
			other, err := (&net.Dialer{}).DialContext(ctx, network, to)
			if err != nil {
				return
			}
			defer other.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close(); _ = other.Close() })()
			var back sync.WaitGroup
			back.Go(func() { pass(conn, other) })
			pass(other, conn)
			back.Wait()
		})
	}
}

// pass passes bytes on until their end, and then that.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// Relay runs a command in the sandbox, and passes on what it sends to Weir's ports. When the input ends, it asks
// the command to end. It returns the command's exit status.
func Relay(ctx context.Context, command string, input io.Reader) (int, error) {
	var lc net.ListenConfig
	for port, sock := range map[string]string{serverPort: serverSock, proxyPort: proxySock} {
		path := filepath.Join(sandboxDir, sock)
		if _, err := os.Stat(path); err != nil { // there is no proxy
			continue
		}
		l, err := lc.Listen(ctx, "tcp", port)
		if err != nil {
			return 0, err
		}
		defer l.Close()
		go relay(ctx, l, "unix", path)
	}
	cmd := exec.Command("sh", "-c", command) //nolint:noctx // end of input ends it
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, input)
		ask(cmd)
	}()
	err := cmd.Wait()
	if _, own := errors.AsType[*exec.ExitError](err); err != nil && !own {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
