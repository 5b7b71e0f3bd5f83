package dpi_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dpiframe.org/dpi"
)

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := dpi.Load(filepath.Join(dir, "none.h5"))
	if e := wants(t, err, dpi.NotFound); e.Row != -1 || e.Feature != -1 {
		t.Fatalf("%+v", e)
	}
	if !errors.Is(err, dpi.ErrNotFound) || errors.Is(err, dpi.ErrIO) {
		t.Fatal(err)
	}
	junk := filepath.Join(dir, "junk.h5")
	if err := os.WriteFile(junk, []byte("not a bundle at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = dpi.Load(junk)
	wants(t, err, dpi.BadModel)
	_, err = dpi.Load(dir)
	wants(t, err, dpi.IO)
	_, err = dpi.Load(filepath.Join(dir, strings.Repeat("a", 300)))
	if e := wants(t, err, dpi.IO); e.NativeCode != int(syscall.ENAMETOOLONG) {
		t.Fatalf("no errno: %+v", e)
	}
	damaged, err := os.ReadFile(demo(t, "adult_widedeep.h5"))
	if err != nil {
		t.Fatal(err)
	}
	damaged[len(damaged)*4/5] ^= 1 // among the weights: golden rows are read by verify only
	_, err = dpi.LoadBytes(damaged)
	wants(t, err, dpi.BadModel)
	_, err = dpi.LoadBytes(nil)
	if err == nil {
		t.Fatal("loaded nothing")
	}
	_, err = dpi.Load("a\x00b")
	wants(t, err, dpi.InvalidArgument)

	bundle := demo(t, "adult_widedeep.h5")
	for _, c := range []struct {
		option dpi.Option
		code   dpi.Code
	}{
		{dpi.WithOption("no_such_option", "1"), dpi.NotFound},
		{dpi.WithOption("threads", "many"), dpi.InvalidArgument},
		{dpi.WithOption("threads", "1\x00"), dpi.InvalidArgument},
		{dpi.WithConcurrency(0), dpi.InvalidArgument},
		{dpi.WithDevice("cuda"), dpi.NoDevice},
		{dpi.WithOption("precision", "fp16"), dpi.Unsupported},
		{dpi.WithOption("memory_limit", "1000"), dpi.OutOfMemory},
	} {
		m, err := dpi.Load(bundle, c.option)
		if err == nil && c.code == dpi.NoDevice {
			_ = m.Close() // a machine with a device
			continue
		}
		wants(t, err, c.code)
	}
}

func TestPredictErrors(t *testing.T) {
	m := load(t, demo(t, "adult_widedeep.h5"))
	good := batchOf(m, 3, 1, "plain")
	out := outFor(m, 3)
	for name, broken := range map[string]func(b *dpi.Batch){
		"ids":       func(b *dpi.Batch) { b.IDs = b.IDs[1:] },
		"no ids":    func(b *dpi.Batch) { b.IDs = nil },
		"dense":     func(b *dpi.Batch) { b.Dense = b.Dense[1:] },
		"offsets":   func(b *dpi.Batch) { b.Offsets = []int64{0, 1} },
		"weights":   func(b *dpi.Batch) { b.Weights = []float32{1} },
		"rows":      func(b *dpi.Batch) { b.Rows = -1 },
		"more rows": func(b *dpi.Batch) { b.Rows = 4 },
		"huge rows": func(b *dpi.Batch) { b.Rows = 1 << 60 },
		"layout":    func(b *dpi.Batch) { b.Layout = 7 },
		"stride":    func(b *dpi.Batch) { b.DenseStride = -1 },
		"shared":    func(b *dpi.Batch) { b.Shared = &dpi.SharedPart{} },
		"shared short": func(b *dpi.Batch) {
			b.Shared = &dpi.SharedPart{Offsets: []int64{0, 9}}
		},
	} {
		b := *good
		broken(&b)
		err := m.Predict(background, &b, out)
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		wants(t, err, dpi.InvalidArgument)
		for _, x := range out {
			if x == x {
				t.Fatalf("%s: result was written", name)
			}
		}
	}
	wants(t, m.Predict(background, nil, out), dpi.InvalidArgument)
	wants(t, m.Predict(background, good, out[:1]), dpi.InvalidArgument)
	wants(t, m.Predict(background, good, nil), dpi.InvalidArgument)
}

func TestRowAndFeature(t *testing.T) {
	m := load(t, demo(t, "msweb_deepfm.h5"))
	visits := m.FeatureIndex("visits") // its rule for ids outside the vocabulary is an error
	b := batchOf(m, 5, 1, "plain")
	b.IDs[3*m.Info().Slots+m.Schema()[visits].Slot] = 7
	e := wants(t, m.Predict(background, b, outFor(m, 5)), dpi.InvalidArgument)
	if e.Row != 3 || e.Feature != visits || e.InShared {
		t.Fatalf("%+v", e)
	}
	counters, err := m.Counters()
	if err != nil || counters.Errors[dpi.InvalidArgument] != 1 || len(counters.Errors) != 1 {
		t.Fatalf("%+v, %v", counters, err)
	}
	if text, err := m.CountersJSON(); err != nil || !strings.Contains(text, `"errors":{"1":1}`) {
		t.Fatal(text, err)
	}
	r, err := m.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := 0; i < 2; i++ {
		if err := r.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	if e := wants(t, r.Set("visits", "lots"), dpi.InvalidArgument); e.Row != 1 || e.Feature != visits {
		t.Fatalf("%+v", e)
	}
	if e := wants(t, r.Set("area", []string{"1"}), dpi.InvalidArgument); e.Row != 1 || e.Feature != 1 {
		t.Fatalf("%+v", e)
	}
	wants(t, r.Set("nothing", 1), dpi.NotFound)
	wants(t, r.SetText(99, "x"), dpi.InvalidArgument)
	wants(t, r.SetIDs(0, []int64{1}, []float32{}), dpi.InvalidArgument)
}

// A refused call writes no row behind the failing one, however many threads share it.
func TestNothingBehindARefusedRow(t *testing.T) {
	m := load(t, demo(t, "adult_widedeep.h5"), dpi.WithOption("device", "cpu"), dpi.WithOption("threads", "4"), dpi.WithOption("max_rows", "64"))
	const rows = 3000
	slots, columns := m.Info().Slots, m.Info().DenseDim
	for _, bad := range []int{0, 1500} {
		b := &dpi.Batch{Rows: rows, IDs: make([]int64, rows*slots), Dense: make([]float32, rows*columns)}
		b.Dense[bad*columns] = float32(math.Inf(1))
		b.Dense[2900*columns] = float32(math.Inf(-1))
		for i := 0; i < 50; i++ {
			out := make([]float32, rows)
			if e := wants(t, m.Predict(context.Background(), b, out), dpi.InvalidArgument); e.Row != bad {
				t.Fatalf("%+v", e)
			}
			for r := bad; r < rows; r++ {
				if out[r] != 0 {
					t.Fatalf("row %d has %v behind the failing row %d", r, out[r], bad)
				}
			}
		}
	}
}

func TestContexts(t *testing.T) {
	// The slow reference in many chunks, so that a call still runs when its context ends.
	m := load(t, demo(t, "adult_widedeep.h5"), dpi.WithMaxRows(8), dpi.WithDevice("ref"))
	b := batchOf(m, 20000, 1, "plain")
	out := outFor(m, b.Rows)
	cancelled, cancel := context.WithCancel(background)
	cancel()
	err := m.Predict(cancelled, b, out)
	wants(t, err, dpi.Cancelled)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, dpi.ErrCancelled) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	past, cancel := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer cancel()
	err = m.Predict(past, b, out)
	wants(t, err, dpi.Timeout)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// A deadline and a cancellation that come while the call runs: it stops between two chunks.
	for tries := 0; tries < 3; tries++ {
		short, cancel := context.WithTimeout(background, 200*time.Microsecond)
		wants(t, m.Predict(short, b, out), dpi.Timeout)
		cancel()
		running, stop := context.WithCancel(background)
		timer := time.AfterFunc(300*time.Microsecond, stop)
		wants(t, m.Predict(running, b, out), dpi.Cancelled)
		timer.Stop()
		stop()
	}
	// The flag of a cancelled call does not stay: the same slot scores on.
	open, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	want := outFor(m, b.Rows)
	if err := m.Predict(background, b, want); err != nil {
		t.Fatal(err)
	}
	if err := m.Predict(open, b, out); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "with a context", out, want)
	r, err := m.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wants(t, r.Predict(cancelled, nil), dpi.Cancelled)
	c, err := m.NewContext(8, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wants(t, c.Predict(past, 1, -1, false), dpi.Timeout)
	wants(t, c.PredictBatch(cancelled, b, out), dpi.Cancelled)
}

// TestDeviceError scores on the emulated GPU until a call of its runtime fails, in a process that is told so.
func TestDeviceError(t *testing.T) {
	plugins := filepath.Join(filepath.Dir(program(t, "x")), "../lib/dpi/backends-1")
	if _, err := os.Stat(filepath.Join(plugins, "libdpi_cuda_emu.so")); err != nil {
		t.Skip("the emulated GPU was not built")
	}
	if os.Getenv("DPI_EMU_FAIL") == "" {
		again := exec.Command(os.Args[0], "-test.run=TestDeviceError")
		again.Env = append(os.Environ(), "DPI_EMU_FAIL=sync:40:719")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	m := load(t, demo(t, "adult_widedeep.h5"), dpi.WithDevice("cuda_emu"), dpi.WithOption("backend_dir", plugins))
	b := batchOf(m, 5, 1, "plain")
	for n := 0; n < 1000; n++ {
		if err := m.Predict(background, b, outFor(m, 5)); err != nil {
			if e := wants(t, err, dpi.Device); e.NativeCode != 719 {
				t.Fatalf("%+v", e)
			}
			return
		}
	}
	t.Fatal("no failure")
}

func TestCodes(t *testing.T) {
	for code := dpi.OK; code <= dpi.Internal; code++ {
		if strings.HasPrefix(code.String(), "Code(") || !errors.Is(&dpi.Error{Code: code}, code) {
			t.Fatalf("%d", code)
		}
	}
	if dpi.BadModel.CName() != "DPI_E_BAD_MODEL" || dpi.OK.CName() != "DPI_OK" || dpi.Code(99).CName() != "DPI_E_UNKNOWN" {
		t.Fatal("name in C")
	}
	if dpi.Code(99).String() != "Code(99)" || dpi.ErrTimeout.Error() != "dpi: Timeout" {
		t.Fatal("text")
	}
}
