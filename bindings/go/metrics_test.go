package dpi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dpiframe.org/dpi"
)

// sample is the value of the first sample whose name and labels begin so; -1 when there is none.
func sample(text, begin string) float64 {
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, begin) {
			var value float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value); err == nil {
				return value
			}
		}
	}
	return -1
}

func TestMetricsCountCalls(t *testing.T) {
	env, err := dpi.NewEnv()
	must(t, err)
	m := load(t, demo(t, "adult_widedeep.h5"), dpi.WithEnv(env), dpi.WithDevice("cpu"))
	for i := 0; i < 7; i++ {
		predict(t, m, batchOf(m, 3, uint64(i), "plain"))
	}
	text, err := env.Metrics(0)
	must(t, err)
	for name, want := range map[string]float64{"dpi_call_seconds_count{model=": 7, "dpi_call_rows_sum{model=": 21, "dpi_calls_total{model=": 7,
		"dpi_rows_total{model=": 21, "dpi_nosuch": -1} {
		if got := sample(text, name); got != want {
			t.Errorf("%s is %v, expected %v in\n%s", name, got, want, text)
		}
	}
	open, err := env.Metrics(dpi.MetricsOpenMetrics)
	must(t, err)
	fine, err := env.Metrics(dpi.MetricsFine)
	must(t, err)
	if !strings.HasSuffix(open, "# EOF\n") || strings.Contains(text, "# EOF") || len(fine) <= len(text) {
		t.Errorf("OpenMetrics ends %q; %d bytes, fine %d", open[len(open)-10:], len(text), len(fine))
	}
	_, err = env.Metrics(1 << 20)
	wants(t, err, dpi.InvalidArgument)
	must(t, env.Close())
	_, err = env.Metrics(0)
	wants(t, err, dpi.Closed)
}

func TestSlowCallsAreKept(t *testing.T) {
	var calls []struct {
		Rows int            `json:"rows"`
		Took float64        `json:"took_us"`
		IDs  map[string]int `json:"ids"`
	}
	quiet := load(t, demo(t, "msweb_deepfm.h5"))
	predict(t, quiet, batchOf(quiet, 9, 1, "plain"))
	if text, err := quiet.SlowJSON(); err != nil || text != "[]" {
		t.Errorf("without the option: %s, %v", text, err)
	}
	m := load(t, demo(t, "msweb_deepfm.h5"), dpi.WithOption("slow_us", "1"))
	predict(t, m, batchOf(m, 900, 1, "plain"))
	text, err := m.SlowJSON()
	must(t, err)
	must(t, json.Unmarshal([]byte(text), &calls))
	if len(calls) != 1 || calls[0].Rows != 900 || calls[0].Took < 1 || calls[0].IDs["area"] != 900 {
		t.Errorf("%s", text)
	}
	must(t, m.Close())
	_, err = m.SlowJSON()
	wants(t, err, dpi.Closed)
	e := endpoint(t, "slow", dpi.WithOption("slow_us", "1"))
	must(t, e.Load(demo(t, "msweb_deepfm.h5"), 5))
	must(t, e.Predict(background, batchOf(quiet, 900, 1, "plain"), outFor(quiet, 900)))
	text, err = e.SlowJSON()
	if err != nil || !strings.Contains(text, `"rows":900`) || !strings.Contains(text, `"version":5`) {
		t.Errorf("%s, %v", text, err)
	}
}
