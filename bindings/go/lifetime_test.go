package dpi_test

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dpiframe.org/dpi"
)

func TestUseAfterClose(t *testing.T) {
	m := load(t, demo(t, "adult_widedeep.h5"))
	b := batchOf(m, 2, 1, "plain")
	rows, err := m.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.NewContext(4, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.Close() != nil || m.Close() != nil {
		t.Fatal("close")
	}
	wants(t, m.Predict(background, b, outFor(m, 2)), dpi.Closed)
	wants(t, m.WarmUp(1), dpi.Closed)
	_, err = m.Counters()
	wants(t, err, dpi.Closed)
	_, err = m.NewRows()
	wants(t, err, dpi.Closed)
	_, err = m.NewContext(1, 0)
	wants(t, err, dpi.Closed)
	wants(t, rows.Predict(background, nil), dpi.Closed)
	// A context has its own reference.
	if err := c.PredictBatch(background, b, outFor(m, 2)); err != nil {
		t.Fatal(err)
	}
	if rows.Close() != nil || c.Close() != nil {
		t.Fatal("close")
	}
}

func TestCloseWhilePredicting(t *testing.T) {
	for round := 0; round < 20; round++ {
		m, err := dpi.Load(demo(t, "adult_widedeep.h5"), dpi.WithConcurrency(2))
		if err != nil {
			t.Fatal(err)
		}
		b := batchOf(m, 64, 1, "plain")
		want := predict(t, m, b)
		var group sync.WaitGroup
		failures := make(chan error, 8)
		for g := 0; g < 8; g++ {
			group.Add(1)
			go func() {
				defer group.Done()
				out := make([]float32, len(want))
				for {
					err := m.Predict(background, b, out)
					if errors.Is(err, dpi.ErrClosed) {
						return
					}
					if err != nil || out[0] != want[0] || out[len(out)-1] != want[len(want)-1] {
						failures <- err
						return
					}
				}
			}()
		}
		time.Sleep(time.Duration(round) * 100 * time.Microsecond)
		for g := 0; g < 2; g++ {
			group.Add(1)
			go func() {
				defer group.Done()
				_ = m.Close()
			}()
		}
		group.Wait()
		close(failures)
		for err := range failures {
			t.Fatal(err)
		}
	}
}

// residentKiB is the process's memory now.
func residentKiB(t testing.TB) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "VmRSS:") {
			n, _ := strconv.Atoi(strings.Fields(line)[1])
			return n
		}
	}
	t.Skip("no VmRSS")
	return 0
}

// settled collects until what was left to finalizers is gone: rows hold their model, so it takes two collections.
func settled(t testing.TB) int {
	for i := 0; i < 4; i++ {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	return residentKiB(t)
}

func TestThousandLoadsDoNotGrow(t *testing.T) {
	bundle, err := os.ReadFile(demo(t, "adult_widedeep.h5"))
	if err != nil {
		t.Fatal(err)
	}
	cycles, settle := 1000, 300
	if testing.Short() {
		cycles, settle = 300, 100
	}
	base := 0
	for n := 0; n < cycles; n++ {
		m, err := dpi.LoadBytes(bundle, dpi.WithConcurrency(2), dpi.WithOption("max_rows", "64"), dpi.WithOption("max_nnz", "4096"))
		if err != nil {
			t.Fatal(err)
		}
		predict(t, m, batchOf(m, 2, 1, "plain"))
		rows, err := m.NewRows()
		if err != nil {
			t.Fatal(err)
		}
		if n%4 == 0 { // these are left to the finalizer
			rows, m = nil, nil
			_ = rows
			if n%16 == 0 {
				runtime.GC()
			}
		} else {
			_ = rows.Close()
			_ = m.Close()
		}
		if n == settle {
			base = settled(t)
		}
	}
	end := settled(t)
	t.Logf("%d KiB after %d loads, %d KiB after %d", base, settle, end, cycles)
	if end-base > base/10+8192 {
		t.Fatalf("grew from %d to %d KiB", base, end)
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	m := load(t, demo(t, "adult_widedeep.h5"))
	b := batchOf(m, 64, 1, "plain")
	out := outFor(m, 64)
	if n := testing.AllocsPerRun(200, func() { _ = m.Predict(background, b, out) }); n != 0 {
		t.Fatalf("%v allocations per call", n)
	}
	open, cancel := contextWithCancel()
	defer cancel()
	if n := testing.AllocsPerRun(200, func() { _ = m.Predict(open, b, out) }); n > 0 {
		t.Fatalf("%v allocations per call with a context", n)
	}
}
