package main

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"dpiframe.org/dpi"
)

// bounds are the upper ends of the histogram's buckets, in seconds.
var bounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

type asked struct {
	path   string
	status int
}

// metrics counts what the HTTP side did; the library counts calls, rows, errors and times itself.
type metrics struct {
	mu       sync.Mutex
	requests map[asked]int64
	causes   map[string]int64
	buckets  []int64 // one more than bounds
	seconds  float64
}

func newMetrics() *metrics {
	m := &metrics{requests: map[asked]int64{}, causes: map[string]int64{}, buckets: make([]int64, len(bounds)+1)}
	for cause := range statusOf {
		m.causes[cause] = 0
	}
	return m
}

func (m *metrics) answered(path string, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[asked{path, status}]++
	if path == "/score" {
		m.buckets[sort.SearchFloat64s(bounds, took.Seconds())]++
		m.seconds += took.Seconds()
	}
}

func (m *metrics) refused(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.causes[cause]++
}

// page collects samples under their metric, since a metric's samples must stand together.
type page struct {
	names []string
	text  map[string]*bytes.Buffer
}

func newPage() *page { return &page{text: map[string]*bytes.Buffer{}} }

func (p *page) bytes() []byte {
	var all bytes.Buffer
	for _, name := range p.names {
		all.Write(p.text[name].Bytes())
	}
	return all.Bytes()
}

func (p *page) sample(name, kind, help, suffix, labels, value string) {
	to := p.text[name]
	if to == nil {
		to = &bytes.Buffer{}
		fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		p.names, p.text[name] = append(p.names, name), to
	}
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(to, "%s%s%s %s\n", name, suffix, labels, value)
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func label(name, value string) string { return name + `="` + escapes.Replace(value) + `"` }

// text is the service's own page, and behind it the library's: no family is in both.
func (m *metrics) text(inFlight int, status dpi.EndpointStatus) ([]byte, error) {
	p := newPage()
	m.own(p)
	p.versions(status)
	p.sample("dpi_http_in_flight", "gauge", "Requests to /score that are being received, scored or answered.", "", "",
		strconv.Itoa(inFlight))
	library, err := dpi.DefaultEnv().Metrics(0)
	return append(p.bytes(), library...), err
}

func (m *metrics) own(p *page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, n := range m.requests {
		p.sample("dpi_http_requests_total", "counter", "Requests answered.", "",
			label("path", a.path)+","+label("status", strconv.Itoa(a.status)), strconv.FormatInt(n, 10))
	}
	for cause, n := range m.causes {
		p.sample("dpi_http_refused_total", "counter", "Requests that were not scored.", "", label("cause", cause),
			strconv.FormatInt(n, 10))
	}
	const name, help = "dpi_http_score_seconds", "Time of a request to /score, from its head to its answer."
	total := int64(0)
	for i, n := range m.buckets {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		p.sample(name, "histogram", help, "_bucket", label("le", le), strconv.FormatInt(total, 10))
	}
	p.sample(name, "histogram", help, "_sum", "", strconv.FormatFloat(m.seconds, 'g', -1, 64))
	p.sample(name, "histogram", help, "_count", "", strconv.FormatInt(total, 10))
}
