package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"dpiframe.org/dpi"
)

// What one request may take, and what all of them together.
const (
	maxBody        = 2 << 20
	maxRows        = 4096
	maxValues      = 1 << 18 // texts and numbers of one request
	maxHeader      = 32 << 10
	maxRequests    = 64 // to /score, from the end of the head until the answer is written
	maxConnections = 1024
)

// problem is a request that is not scored. Its cause is a label of /metrics and decides the status.
type problem struct {
	cause, text string
	row         int // -1: none
	feature     string
}

func (p *problem) Error() string { return p.text }

func refuse(cause, format string, args ...interface{}) *problem {
	return &problem{cause: cause, text: fmt.Sprintf(format, args...), row: -1}
}

// statusOf has every cause. A client that went away, or was too slow with its body, gets no answer.
var statusOf = map[string]int{"path": 404, "method": 405, "too_large": 413, "json": 400, "value": 400, "overload": 503,
	"timeout": 503, "unavailable": 503, "stopping": 503, "client": 0, "internal": 500}

// worker is what one request needs while it is decoded and scored, and the next can use again. Its rows are encoded and scored by one version
// of the model.
type worker struct {
	model  *dpi.Model
	rows   *dpi.Rows
	reader *rowReader
	scores []float32
}

// renew goes over to the endpoint's current version; what fails leaves the worker as it was.
func (w *worker) renew(e *dpi.Endpoint) error {
	if w.model != nil && w.model.Info().Version == e.Version() {
		return nil
	}
	model, err := e.Acquire()
	if err != nil {
		return err
	}
	rows, err := model.NewRows()
	if err != nil {
		_ = model.Close()
		return err
	}
	w.close()
	w.model, w.rows, w.reader = model, rows, newRowReader(model, rows)
	return nil
}

func (w *worker) close() {
	if w.model != nil {
		_, _ = w.rows.Close(), w.model.Close()
	}
}

type service struct {
	endpoint *dpi.Endpoint
	batcher  *dpi.Batcher // nil: each request is scored by itself
	heads    []string
	schema   []dpi.Feature
	places   chan struct{}
	workers  chan *worker
	metrics  *metrics
	stopping atomic.Bool

	scoringTime time.Duration
}

// newService serves an endpoint that has a version. Heads, and features with their names, are the same in all that follow.
func newService(endpoint *dpi.Endpoint, scoringTime time.Duration, batch bool) (*service, error) {
	model, err := endpoint.Acquire()
	if err != nil {
		return nil, err
	}
	defer model.Close()
	s := &service{endpoint: endpoint, heads: model.Heads(), schema: model.Schema(), metrics: newMetrics(),
		places: make(chan struct{}, maxRequests), scoringTime: scoringTime}
	count := 2 * runtime.GOMAXPROCS(0)
	if batch {
		roomy := []dpi.Option{dpi.WithOption("batch.max_rows", "1024"), dpi.WithOption("batch.queue", "16")} // all requests may wait
		if s.batcher, err = endpoint.NewBatcher(append(roomy, dpi.WithConcurrency(maxRequests))...); err != nil {
			return nil, err
		}
		count = maxRequests // those that wait for a chunk are what the next one is made of
	}
	s.workers = make(chan *worker, count)
	for i := 0; i < count; i++ {
		w := &worker{}
		if err := w.renew(endpoint); err != nil {
			return nil, err
		}
		s.workers <- w
	}
	return s, nil
}

func (s *service) close() {
	if s.batcher != nil {
		_ = s.batcher.Close()
	}
}

// predict scores the worker's rows, with those of other requests where there is a batcher.
func (s *service) predict(ctx context.Context, w *worker, scores []float32) error {
	if s.batcher == nil {
		return w.rows.Predict(ctx, scores)
	}
	_, err := s.batcher.PredictRows(ctx, w.rows, scores)
	return err
}

// renewIdle brings workers that no request uses to a new version soon, so that the memory of the old one is given back.
func (s *service) renewIdle(ctx context.Context) {
	for seen := s.endpoint.Version(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		if now := s.endpoint.Version(); now != seen {
			seen = now
			for i := 0; i < cap(s.workers); i++ {
				w := <-s.workers
				_ = w.renew(s.endpoint) // tried again by its next request
				s.workers <- w
			}
		}
	}
}

type answer struct {
	status      int
	contentType string
	body        []byte
	version     uint64 // of the model that scored, 0: none did
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	path, method, handle := r.URL.Path, http.MethodGet, s.health
	switch path {
	case "/health":
	case "/metrics":
		handle = s.metricsText
	case "/score":
		method, handle = http.MethodPost, s.score
		select {
		case s.places <- struct{}{}:
			defer func() { <-s.places }()
		default:
			handle = func(*http.Request) (*answer, error) {
				return nil, refuse("overload", "%d requests are under way already", maxRequests)
			}
		}
	default:
		path, method = "other", r.Method
		handle = func(*http.Request) (*answer, error) { return nil, refuse("path", "no such path") }
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		handle = func(*http.Request) (*answer, error) { return nil, refuse("method", "%s only", method) }
	}
	a, err := handle(r)
	if err != nil {
		a = s.refused(err)
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler) // closes the connection
	}
	s.metrics.answered(path, a.status, time.Since(started))
	write(w, a, s.stopping.Load())
}

func write(w http.ResponseWriter, a *answer, last bool) {
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	if a.version != 0 {
		w.Header().Set("Model-Version", strconv.FormatUint(a.version, 10))
	}
	if a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if last || a.status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client is gone when this fails
}

func (s *service) score(r *http.Request) (*answer, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.scoringTime)
	defer cancel()
	var w *worker
	select {
	case w = <-s.workers:
		defer func() { s.workers <- w }()
	case <-ctx.Done():
		return nil, unscored(r, refuse("timeout", "no worker came free in time"))
	}
	if err := w.renew(s.endpoint); err != nil {
		return nil, err
	}
	w.rows.Clear()
	if err := w.reader.read(body); err != nil {
		return nil, err
	}
	count := w.rows.Count() * len(s.heads)
	if count > len(w.scores) {
		w.scores = make([]float32, count)
	}
	if err := s.predict(ctx, w, w.scores[:count]); err != nil {
		return nil, unscored(r, w.reader.blame(err))
	}
	return &answer{http.StatusOK, "application/json", s.answerText(w.scores[:count]), w.model.Info().Version}, nil
}

// unscored tells a deadline that passed from a client that left.
func unscored(r *http.Request, err error) error {
	if r.Context().Err() != nil {
		return refuse("client", "the client went away")
	}
	return err
}

// readBody lets a client that sends everything before it reads see that the body is too large, unless it sends far more.
func readBody(r *http.Request) ([]byte, error) {
	tooLarge := refuse("too_large", "the body exceeds %d bytes", maxBody)
	if r.ContentLength > 2*maxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		_, err = io.CopyN(io.Discard, r.Body, maxBody)
		if err == nil || err == io.EOF {
			return nil, tooLarge
		}
	}
	if err != nil {
		return nil, refuse("client", "the body did not arrive: %v", err)
	}
	return body, nil
}

// answerText is one list per row, one score per head; JSON has no text for a score that is not finite.
func (s *service) answerText(scores []float32) []byte {
	names, _ := json.Marshal(s.heads) // strings always have a text
	text := append(append([]byte(`{"heads":`), names...), `,"scores":[`...)
	for i, score := range scores {
		switch {
		case i == 0:
			text = append(text, '[')
		case i%len(s.heads) == 0:
			text = append(text, "],["...)
		default:
			text = append(text, ',')
		}
		if x := float64(score); math.IsNaN(x) || math.IsInf(x, 0) {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendFloat(text, x, 'g', -1, 32)
		}
	}
	if len(scores) > 0 {
		text = append(text, ']')
	}
	return append(text, "]}\n"...)
}

// refused counts and describes what was not scored.
func (s *service) refused(err error) *answer {
	var p *problem
	if !errors.As(err, &p) {
		p = s.ofLibrary(err)
	}
	s.metrics.refused(p.cause)
	fields := map[string]interface{}{"error": p.text, "cause": p.cause}
	if p.row >= 0 {
		fields["row"] = p.row
	}
	var of *ofUser
	if errors.As(err, &of) {
		fields["user"] = of.user
	}
	if p.feature != "" {
		fields["feature"] = p.feature
	}
	text, _ := json.Marshal(fields)
	return &answer{statusOf[p.cause], "application/json", append(text, '\n'), 0}
}

// generalTexts stand for texts of the library that name files and servers, which only the log has.
var generalTexts = map[dpi.Code]string{dpi.Timeout: "no score in time", dpi.IO: "rows of the model cannot be read now"}

// ofLibrary tells the client's input from overload and from a fault of ours, whose text the client does not see.
func (s *service) ofLibrary(err error) *problem {
	var e *dpi.Error
	if !errors.As(err, &e) {
		e = &dpi.Error{Code: dpi.Internal, Message: err.Error()}
	}
	causes := map[dpi.Code]string{dpi.InvalidArgument: "value", dpi.NotFound: "value", dpi.Timeout: "timeout",
		dpi.Cancelled: "timeout", dpi.QueueFull: "overload", dpi.IO: "unavailable", dpi.Closed: "stopping"}
	cause, known := causes[e.Code]
	if !known {
		log.Printf("internal error: %v", err)
		return refuse("internal", "internal error")
	}
	if text, general := generalTexts[e.Code]; general {
		log.Printf("not scored: %v", err)
		return refuse(cause, "%s", text)
	}
	p := &problem{cause: cause, text: e.Message, row: e.Row}
	if e.InShared {
		p.row = -1
	}
	if e.Feature >= 0 && e.Feature < len(s.schema) {
		p.feature = s.schema[e.Feature].Name
	}
	return p
}

// health is 200 while requests are taken and 503 from the moment of stopping, so that a balancer turns away first. A version that was refused
// does not make it another status: the one before serves.
func (s *service) health(*http.Request) (*answer, error) {
	status, text := http.StatusOK, "ok"
	if s.stopping.Load() {
		status, text = http.StatusServiceUnavailable, "stopping"
	}
	model, err := s.endpoint.Acquire()
	if err != nil {
		return nil, err
	}
	defer model.Close()
	versions, err := s.endpoint.Status()
	if err != nil {
		return nil, err
	}
	fields := map[string]interface{}{"status": text, "device": model.Info().Device, "library": dpi.LibraryVersion(),
		"version": versions.Version, "digest": versions.Digest}
	if r := refusedOf(versions); r != nil {
		fields["refused"] = r
	}
	body, _ := json.Marshal(fields)
	return &answer{status, "application/json", append(body, '\n'), 0}, nil
}

func (s *service) metricsText(*http.Request) (*answer, error) {
	status, err := s.endpoint.Status()
	if err != nil {
		return nil, err
	}
	body, err := s.metrics.text(len(s.places), status)
	return &answer{http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", body, 0}, err
}
