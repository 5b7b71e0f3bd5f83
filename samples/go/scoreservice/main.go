// A scoring service over net/http: raw JSON rows in, scores out.
//
//	go run ./scoreservice -bundle msweb_deepfm.h5 -listen 127.0.0.1:8080
//	curl -d '{"rows":[{"history":["1038","1026"],"area":"1034","visits":2}]}' http://127.0.0.1:8080/score
//
// The service in java/scoreservice does the same; services.md says what. On SIGTERM and SIGINT it answers what was begun,
// then closes the models.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"dpiframe.org/dpi"
)

type options struct {
	bundle, follow, listen, device, batch              string
	warmUp, clientSeconds, scoringMillis, graceSeconds int
	model                                              []dpi.Option
}

// option takes name=value, an option of the library for every version, such as store.redis_address.
func (o *options) option(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("'%s' is not name=value", text)
	}
	o.model = append(o.model, dpi.WithOption(name, value))
	return nil
}

func main() {
	var o options
	flag.StringVar(&o.bundle, "bundle", "", "the model to begin with")
	flag.StringVar(&o.follow, "follow", "", "a folder: its newest v<number>.h5 is loaded soon after it comes there by rename")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address; port 0 takes a free one")
	flag.StringVar(&o.device, "device", "auto", "cpu, cuda or auto")
	flag.StringVar(&o.batch, "batch", "off", "on: concurrent requests are scored together")
	flag.Func("option", "name=value, repeated: options of the library for every version, such as store.redis_address=HOST:PORT", o.option)
	flag.IntVar(&o.warmUp, "warm-up", 64, "rows of the warm-up batches")
	flag.IntVar(&o.clientSeconds, "client-seconds", 5, "a client's time to send a request, and to take the answer")
	flag.IntVar(&o.scoringMillis, "scoring-millis", 2000, "time to decode and score, from the end of a request's body")
	flag.IntVar(&o.graceSeconds, "grace-seconds", 10, "time for what was begun, at shutdown")
	flag.Parse()
	wrong := ""
	if o.bundle == "" && o.follow == "" {
		wrong = "neither -bundle nor -follow is given"
	} else if o.batch != "on" && o.batch != "off" {
		wrong = fmt.Sprintf("option -batch: '%s' is neither on nor off", o.batch)
	}
	if wrong != "" {
		fmt.Fprintln(os.Stderr, "wrong arguments: "+wrong)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	if err := dpi.DefaultEnv().SetLogLevel(dpi.LogInfo); err != nil {
		return err
	}
	go logMessages()
	endpoint, err := open(ctx, o)
	if err != nil && ctx.Err() != nil {
		log.Print("stopped: no version came to serve")
		return nil
	}
	if err != nil {
		return err
	}
	defer endpoint.Close()
	s, err := newService(endpoint, time.Duration(o.scoringMillis)*time.Millisecond, o.batch == "on")
	if err != nil {
		return err
	}
	defer s.close()
	go s.renewIdle(ctx)
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	server := newServer(s, s.scoringTime, time.Duration(o.clientSeconds)*time.Second)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Printf("listening on http://%s", listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	log.Printf("stopping: requests that were begun are answered, for at most %d s", o.graceSeconds)
	time.Sleep(200 * time.Millisecond) // a balancer sees /health, requests on their way arrive
	end, cancel := context.WithTimeout(context.Background(), time.Duration(o.graceSeconds)*time.Second)
	defer cancel()
	if err := server.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopped: requests are unanswered after %d s", o.graceSeconds)
	} else if err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	log.Print("stopped: every request that was begun is answered")
	return nil
}

// open makes the endpoint and waits until it has a version.
func open(ctx context.Context, o options) (*dpi.Endpoint, error) {
	// One row's score that is not finite is null in the answer and does not refuse the others.
	own := []dpi.Option{dpi.WithDevice(o.device), dpi.WithWarmUp(o.warmUp), dpi.WithOption("nonfinite", "return")}
	e, err := dpi.NewEndpoint("scoreservice", append(own, o.model...)...)
	if err != nil {
		return nil, err
	}
	if o.bundle != "" || o.follow == "" {
		err = e.Load(o.bundle, 0)
	}
	if err == nil && o.follow != "" {
		if err = e.Follow(o.follow); err == nil {
			if e.Version() == 0 {
				log.Printf("waiting for a version in %s", o.follow)
			}
			err = e.Wait(ctx, 1)
		}
	}
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// newServer limits what clients can hold: time, headers, connections.
func newServer(handler http.Handler, scoring, client time.Duration) *http.Server {
	var open atomic.Int64
	return &http.Server{Handler: handler, ReadHeaderTimeout: client, ReadTimeout: client, MaxHeaderBytes: maxHeader,
		WriteTimeout: 2*client + scoring, // counted from the end of the head
		IdleTimeout:  30 * time.Second,
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				if open.Add(1) > maxConnections {
					_ = c.Close()
				}
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		}}
}
