package main

import (
	"bytes"
	"encoding/json"
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

// metrics counts what the HTTP side did; the model counts for itself.
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

func (m *metrics) text(counters string, inFlight int, hostBytes, deviceBytes uint64, status dpi.EndpointStatus) ([]byte, error) {
	p := newPage()
	m.own(p)
	p.versions(status)
	p.sample("dpi_http_in_flight", "gauge", "Requests to /score that are being received, scored or answered.", "", "",
		strconv.Itoa(inFlight))
	p.sample("dpi_model_host_bytes", "gauge", "Tables and weights in host memory.", "", "", strconv.FormatUint(hostBytes, 10))
	p.sample("dpi_model_device_bytes", "gauge", "Tables and weights in device memory.", "", "",
		strconv.FormatUint(deviceBytes, 10))
	err := p.counters(counters)
	return p.bytes(), err
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

// counters shows whatever the library counts.
func (p *page) counters(text string) error {
	tree := map[string]interface{}{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return err
	}
	for _, key := range sortedKeys(tree) {
		p.counter("dpi_"+key, key, "", tree[key])
	}
	return nil
}

// gauges are counters' keys whose numbers also fall, as those that end in _ms do.
var gauges = map[string]bool{"queued": true, "running": true, "parked_now": true}

// counter shows a number under its key, an object with its keys as a label, a list by its elements' names. What ends in _ms
// or is one of gauges is a gauge, everything else only grows; true and false are the gauges 1 and 0. Errors are labelled by
// name.
func (p *page) counter(name, key, labels string, value interface{}) {
	one := strings.TrimSuffix(key, "s")
	switch v := value.(type) {
	case json.Number:
		help := "The library's counter `" + key + "` since the model was loaded."
		if strings.HasSuffix(key, "_ms") || gauges[key] {
			p.sample(name, "gauge", help, "", labels, v.String())
		} else {
			p.sample(name+"_total", "counter", help, "", labels, v.String())
		}
	case bool:
		number := "0"
		if v {
			number = "1"
		}
		p.sample(name, "gauge", "The library's `"+key+"`.", "", labels, number)
	case map[string]interface{}:
		for _, k := range sortedKeys(v) {
			named := k
			if code, err := strconv.Atoi(k); err == nil && key == "errors" {
				named = dpi.Code(code).CName()
			}
			p.counter(name, key, join(labels, label(one, named)), v[k])
		}
	case []interface{}:
		for _, element := range v {
			object, _ := element.(map[string]interface{})
			named, _ := object["name"].(string)
			for _, k := range sortedKeys(object) {
				p.counter(strings.TrimSuffix(name, "s")+"_"+k, k, join(labels, label(one, named)), object[k])
			}
		}
	}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "," + b
}

func sortedKeys(m map[string]interface{}) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
