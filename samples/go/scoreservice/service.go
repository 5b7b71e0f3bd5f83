package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dpiframe.org/dpi"
)

const (
	maxBody = 8 << 20
	maxRows = 4096
)

// request is the body of POST /score: raw values by feature name. Features of the request part ("shared") are given
// once and hold for all rows, for models whose schema has shared features.
type request struct {
	Shared map[string]interface{}   `json:"shared"`
	Rows   []map[string]interface{} `json:"rows"`
}

// response has one list per row, one score per head.
type response struct {
	Heads  []string    `json:"heads"`
	Scores [][]float32 `json:"scores"`
}

type problem struct {
	Error   string `json:"error"`
	Code    string `json:"code"`
	Row     *int   `json:"row,omitempty"`
	Feature string `json:"feature,omitempty"`
}

// service scores over one model. Row builders are pooled, so that a request allocates little beyond its JSON.
type service struct {
	model    *dpi.Model
	heads    []string
	schema   []dpi.Feature
	rows     sync.Pool
	requests atomic.Int64
	refused  atomic.Int64
	draining atomic.Bool
}

func newService(model *dpi.Model) *service {
	return &service{model: model, heads: model.Heads(), schema: model.Schema()}
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/score", s.score)
	mux.HandleFunc("/health", s.health)
	mux.HandleFunc("/metrics", s.metrics)
	return mux
}

func (s *service) score(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if r.Method != http.MethodPost {
		s.refuse(w, http.StatusMethodNotAllowed, errors.New("POST a JSON object with rows"))
		return
	}
	var body request
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.UseNumber() // a number's text reaches the encoder as it was written
	if err := decoder.Decode(&body); err != nil {
		s.refuse(w, http.StatusBadRequest, err)
		return
	}
	if len(body.Rows) > maxRows {
		s.refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("%d rows, at most %d are scored at once", len(body.Rows), maxRows))
		return
	}
	answer, err := s.run(r, &body)
	if err != nil {
		s.refuse(w, statusOf(err), err)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *service) run(r *http.Request, body *request) (*response, error) {
	rows, _ := s.rows.Get().(*dpi.Rows)
	if rows == nil {
		var err error
		if rows, err = s.model.NewRows(); err != nil {
			return nil, err
		}
	}
	defer s.rows.Put(rows) // what the pool drops is closed by its finalizer
	rows.Clear()
	if err := fill(rows, body); err != nil {
		return nil, err
	}
	scores := make([]float32, len(body.Rows)*len(s.heads))
	if err := rows.Predict(r.Context(), scores); err != nil {
		return nil, err
	}
	answer := &response{Heads: s.heads, Scores: make([][]float32, len(body.Rows))}
	for i := range answer.Scores {
		answer.Scores[i] = scores[i*len(s.heads) : (i+1)*len(s.heads)]
	}
	return answer, nil
}

func fill(rows *dpi.Rows, body *request) error {
	if body.Shared != nil {
		if err := rows.BeginShared(); err != nil {
			return err
		}
		if err := set(rows, body.Shared); err != nil {
			return err
		}
	}
	for _, row := range body.Rows {
		if err := rows.Begin(); err != nil {
			return err
		}
		if err := set(rows, row); err != nil {
			return err
		}
	}
	return nil
}

func set(rows *dpi.Rows, values map[string]interface{}) error {
	for name, value := range values {
		if err := rows.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// statusOf maps the library's errors to HTTP: the client's input, overload, or a fault of ours.
func statusOf(err error) int {
	switch {
	case errors.Is(err, dpi.ErrInvalidArgument), errors.Is(err, dpi.ErrNotFound):
		return http.StatusBadRequest
	case errors.Is(err, dpi.ErrTimeout), errors.Is(err, dpi.ErrCancelled), errors.Is(err, dpi.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (s *service) refuse(w http.ResponseWriter, status int, err error) {
	s.refused.Add(1)
	p := problem{Error: err.Error(), Code: "Request"}
	var e *dpi.Error
	if errors.As(err, &e) {
		p.Code = e.Code.String()
		if e.Row >= 0 {
			p.Row = &e.Row
		}
		if e.Feature >= 0 && e.Feature < len(s.schema) {
			p.Feature = s.schema[e.Feature].Name
		}
	}
	writeJSON(w, status, p)
}

// health is 200 while requests are taken and 503 from the moment of shutting down, so that a balancer turns away first.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "draining"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "device": s.model.Info().Device, "library": dpi.LibraryVersion()})
}

// metrics is Prometheus text.
func (s *service) metrics(w http.ResponseWriter, _ *http.Request) {
	c, err := s.model.Counters()
	if err != nil {
		s.refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE dpi_http_requests_total counter\ndpi_http_requests_total %d\n", s.requests.Load())
	fmt.Fprintf(w, "# TYPE dpi_http_refused_total counter\ndpi_http_refused_total %d\n", s.refused.Load())
	fmt.Fprintf(w, "# TYPE dpi_calls_total counter\ndpi_calls_total %d\n", c.Calls)
	fmt.Fprintf(w, "# TYPE dpi_rows_total counter\ndpi_rows_total %d\n", c.Rows)
	fmt.Fprintf(w, "# TYPE dpi_errors_total counter\n")
	for code := dpi.OK; code <= dpi.Internal; code++ {
		if n := c.Errors[code]; n > 0 {
			fmt.Fprintf(w, "dpi_errors_total{code=%s} %d\n", strconv.Quote(code.String()), n)
		}
	}
	for _, kind := range []struct {
		name string
		of   func(f *dpi.FeatureCounters) int64
	}{{"missing", func(f *dpi.FeatureCounters) int64 { return f.Missing }},
		{"out_of_range", func(f *dpi.FeatureCounters) int64 { return f.OutOfRange }},
		{"cut", func(f *dpi.FeatureCounters) int64 { return f.Cut }}} {
		fmt.Fprintf(w, "# TYPE dpi_feature_%s_total counter\n", kind.name)
		for i := range c.Features {
			fmt.Fprintf(w, "dpi_feature_%s_total{feature=%s} %d\n", kind.name, strconv.Quote(c.Features[i].Name), kind.of(&c.Features[i]))
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, value interface{}) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client is gone when this fails
}

// newServer limits what a slow client can hold.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
}
