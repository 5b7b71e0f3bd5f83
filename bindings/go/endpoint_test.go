package dpi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dpiframe.org/dpi"
)

// tags is how many bundles tests/capi/make_versions.py makes; the score of bundle n for ids a and b is 33 (n + 1) + (a + b) / 1024.
const tags = 16

// versions makes those bundles.
func versions(t testing.TB) func(name string) string {
	folder := t.TempDir()
	made := exec.Command("/usr/bin/python3", "-B", filepath.Join(root(t), "tests/capi/make_versions.py"), folder)
	if text, err := made.CombinedOutput(); err != nil {
		if strings.Contains(string(text), "ModuleNotFoundError") {
			t.Skip("python3 with h5py, numpy, xxhash and cryptography is not installed")
		}
		t.Fatalf("%v: %s", err, text)
	}
	return func(name string) string { return filepath.Join(folder, name+".h5") }
}

func endpoint(t testing.TB, name string, options ...dpi.Option) *dpi.Endpoint {
	t.Helper()
	env, err := dpi.NewEnv() // what it tells is not for the other tests
	if err != nil {
		t.Fatal(err)
	}
	e, err := dpi.NewEndpoint(name, append(options, dpi.WithDevice("cpu"), dpi.WithEnv(env))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = e.Close(), env.Close() })
	return e
}

func tagOf(score float32, sum int64) int {
	return int(math.Round((float64(score)-float64(sum)/1024)/33)) - 1
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEndpointLoadsRefusesAndRollsBack(t *testing.T) {
	bundle := versions(t)
	e := endpoint(t, "go")
	batch := &dpi.Batch{Rows: 2, IDs: []int64{1, 2, 3, 4}}
	out := make([]float32, 2)
	if _, err := e.PredictVersion(background, batch, out); !errors.Is(err, dpi.ErrNotFound) {
		t.Fatalf("without a version: %v", err)
	}
	if _, err := e.Acquire(); !errors.Is(err, dpi.ErrNotFound) {
		t.Fatalf("without a version: %v", err)
	}
	must(t, e.Load(bundle("3"), 0))
	must(t, e.Load(bundle("4"), 40))
	version, err := e.PredictVersion(background, batch, out)
	if err != nil || version != 40 || tagOf(out[0], 3) != 4 || tagOf(out[1], 7) != 4 {
		t.Fatalf("version %d, scores %v, %v", version, out, err)
	}
	var failed *dpi.Error
	if err := e.Load(bundle("renamed"), 0); !errors.As(err, &failed) || failed.Code != dpi.Unsupported || !strings.Contains(err.Error(), "'c', was 'b'") {
		t.Fatalf("a bundle of other features: %v", err)
	}
	s, err := e.Status()
	if err != nil || s.Name != "go" || s.Version != 40 || s.Loads != 2 || s.FailedLoads != 1 || len(s.Failures) != 1 || s.Failures[dpi.Unsupported] != 1 ||
		s.LastLoad.Code != dpi.Unsupported {
		t.Fatalf("%+v, %v", s, err)
	}
	m, err := e.Acquire()
	must(t, err)
	must(t, e.Rollback())
	must(t, e.Predict(background, batch, out))
	if tagOf(out[0], 3) != 3 || e.Version() != 1 {
		t.Fatalf("after the rollback: %v, version %d", out, e.Version())
	}
	must(t, m.Predict(background, batch, out)) // what was acquired stays
	if tagOf(out[0], 3) != 4 || m.Info().Version != 40 {
		t.Fatalf("what was acquired: %v, version %d", out, m.Info().Version)
	}
	must(t, m.Close())
	if err := e.Rollback(); !errors.Is(err, dpi.ErrNotFound) {
		t.Fatalf("a second rollback: %v", err)
	}
	for i, want := range []string{"", "has an endpoint 'twice' already"} {
		e, err := dpi.NewEndpoint("twice")
		if err == nil && want == "" {
			defer e.Close()
		} else if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Fatalf("endpoint %d of that name: %v", i+1, err)
		}
	}
}

func TestEndpointChecksBatchesAndNames(t *testing.T) {
	bundle := versions(t)
	e := endpoint(t, "checks")
	must(t, e.Load(bundle("0"), 0))
	for _, b := range []*dpi.Batch{nil, {Rows: -1}, {Rows: 2, IDs: []int64{1}}, {Rows: 1, IDs: []int64{1, 2}, Offsets: []int64{0}},
		{Rows: 1, IDs: []int64{1, 2}, Weights: []float32{1}}, {Rows: 1, IDs: []int64{1, 99}}} {
		if err := e.Predict(background, b, make([]float32, 2)); !errors.Is(err, dpi.ErrInvalidArgument) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	if err := e.Predict(background, &dpi.Batch{Rows: 1, IDs: []int64{1, 2}}, nil); !errors.Is(err, dpi.ErrInvalidArgument) {
		t.Errorf("no room for scores: %v", err)
	}
	for _, err := range []error{e.Load("a\x00b", 0), e.Set("a\x00", ""), e.Follow("\x00"), e.Subscribe("\x00", "x"), e.Subscribe("x", "\x00")} {
		if !errors.Is(err, dpi.ErrInvalidArgument) {
			t.Errorf("a NUL byte: %v", err)
		}
	}
	if err := e.Set("keep", "1"); !errors.Is(err, dpi.ErrNotFound) {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestEndpointUnderLoad(t *testing.T) {
	bundle := versions(t)
	e := endpoint(t, "swaps", dpi.WithOption("max_contexts", "2"), dpi.WithWarmUp(2))
	must(t, e.Set("keep_seconds", "0"))
	must(t, e.Load(bundle("1"), 1))
	var stop atomic.Bool
	var asked atomic.Int64
	var callers sync.WaitGroup
	for i := 0; i < 16; i++ {
		callers.Add(1)
		go func(id int64) {
			defer callers.Done()
			batch := &dpi.Batch{Rows: 3, IDs: []int64{id, 1, id, 2, id, 3}}
			out, last := make([]float32, 3), uint64(0)
			for !stop.Load() {
				version, err := e.PredictVersion(background, batch, out)
				for r, score := range out {
					if err != nil || version < last || tagOf(score, id+int64(r+1)) != int(version%tags) {
						t.Errorf("version %d after %d, scores %v: %v", version, last, out, err)
						return
					}
				}
				last = version
				asked.Add(1)
				time.Sleep(50 * time.Microsecond)
			}
		}(int64(i))
	}
	for n := uint64(2); n < 200; n++ {
		must(t, e.Load(bundle(fmt.Sprint(n%tags)), n))
	}
	stop.Store(true)
	callers.Wait()
	if asked.Load() < 100 {
		t.Errorf("%d requests", asked.Load())
	}
}

func TestEndpointFollowsAFolder(t *testing.T) {
	bundle := versions(t)
	e := endpoint(t, "follows")
	must(t, e.Set("follow_ms", "5"))
	folder := t.TempDir()
	must(t, e.Follow(folder))
	short, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	if err := e.Wait(short, 1); !errors.Is(err, dpi.ErrTimeout) {
		t.Fatalf("nothing is there: %v", err)
	}
	for n, name := range []string{"1", "truncated", "5"} {
		part := filepath.Join(folder, "part")
		bytes, err := os.ReadFile(bundle(name))
		must(t, err)
		must(t, os.WriteFile(part, bytes, 0o600))
		must(t, os.Rename(part, filepath.Join(folder, fmt.Sprintf("v%04d.h5", n+1))))
		if name != "truncated" {
			must(t, e.Wait(background, uint64(n+1)))
		}
	}
	text, err := e.StatusJSON()
	if err != nil || !strings.Contains(text, `"follows":{"folder":`) || e.Version() != 3 {
		t.Fatalf("%s, %v", text, err)
	}
	must(t, e.Unfollow())
}

func TestEndpointSubscribes(t *testing.T) {
	e := endpoint(t, "subscribes")
	folder := t.TempDir()
	if err := e.Subscribe("kafka://127.0.0.1:1", folder); !errors.Is(err, dpi.ErrInvalidArgument) {
		t.Errorf("an address without a topic: %v", err)
	}
	if err := e.Subscribe("no_such_stream://127.0.0.1:1/deltas", folder); !errors.Is(err, dpi.ErrNotFound) {
		t.Errorf("a plugin that is not there: %v", err)
	}
	if err := e.Subscribe("kafka://127.0.0.1:1/deltas?group=go", folder); errors.Is(err, dpi.ErrNotFound) {
		t.Skipf("the plugin is not built: %v", err)
	} else {
		must(t, err)
	}
	text, err := e.StatusJSON()
	if err != nil || !strings.Contains(text, `"stream":{"source":"kafka://127.0.0.1:1/deltas/0","group":"go","state":"`) {
		t.Fatalf("%s, %v", text, err)
	}
	must(t, e.Unsubscribe())
	if text, err = e.StatusJSON(); err != nil || strings.Contains(text, `"stream"`) || !strings.Contains(text, `"follows"`) {
		t.Fatalf("%s, %v", text, err)
	}
}

func TestEndpointCloses(t *testing.T) {
	bundle := versions(t)
	e := endpoint(t, "closes")
	must(t, e.Load(bundle("0"), 0))
	batch := &dpi.Batch{Rows: 1, IDs: []int64{1, 2}}
	var callers sync.WaitGroup
	for i := 0; i < 8; i++ {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for out := make([]float32, 1); ; {
				if err := e.Predict(background, batch, out); err != nil {
					if !errors.Is(err, dpi.ErrClosed) {
						t.Errorf("while closing: %v", err)
					}
					return
				}
			}
		}()
	}
	time.Sleep(10 * time.Millisecond)
	must(t, e.Close())
	must(t, e.Close())
	callers.Wait()
	for _, err := range []error{e.Load(bundle("1"), 0), e.Rollback(), e.Set("golden", "on"), e.Follow("x"), e.Unfollow(), e.Subscribe("kafka://a:1/t", "x"),
		e.Unsubscribe(), e.Wait(background, 1)} {
		if !errors.Is(err, dpi.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, err := e.Status(); !errors.Is(err, dpi.ErrClosed) || e.Version() != 0 {
		t.Errorf("after Close: %v, version %d", err, e.Version())
	}
}
