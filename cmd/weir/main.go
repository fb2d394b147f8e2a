// Command weir is the gateway between AI agents and everything they call.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"weir/cmd/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Main(ctx, os.Args[1:], os.Environ(), app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
