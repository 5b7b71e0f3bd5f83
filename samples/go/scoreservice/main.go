// A scoring service over net/http: raw JSON rows in, scores out.
//
//	go run ./scoreservice -bundle weights/demo/msweb_deepfm.h5 -listen 127.0.0.1:8080
//	curl -d '{"rows":[{"history":["1038","1026"],"area":"1034","visits":2}]}' http://127.0.0.1:8080/score
//
// POST /score scores, GET /health says whether requests are taken, GET /metrics is Prometheus text. SIGTERM and SIGINT
// drain: health turns to 503, running requests finish, then the model is closed.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"dpiframe.org/dpi"
)

func main() {
	bundle := flag.String("bundle", "", "the model")
	listen := flag.String("listen", "127.0.0.1:8080", "address; port 0 takes a free one")
	device := flag.String("device", "auto", "cpu, cuda or auto")
	warm := flag.Int("warm-up", 256, "rows of the warm-up batches")
	grace := flag.Duration("grace", 10*time.Second, "time for running requests at shutdown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bundle, *listen, *device, *warm, *grace); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, bundle, listen, device string, warm int, grace time.Duration) error {
	model, err := dpi.Load(bundle, dpi.WithDevice(device), dpi.WithWarmUp(warm))
	if err != nil {
		return err
	}
	defer model.Close()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s := newService(model)
	server := newServer(s.routes())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Printf("listening on %s, device %s, library %s", listener.Addr(), model.Info().Device, dpi.LibraryPath())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	log.Print("draining")
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	log.Print("stopped")
	return nil
}
