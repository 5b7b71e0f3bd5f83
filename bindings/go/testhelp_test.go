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
	"testing"

	"dpiframe.org/dpi"
)

var background = context.Background()

// root is the repository: DPI_ROOT, set by the test stage.
func root(t testing.TB) string {
	r := os.Getenv("DPI_ROOT")
	if r == "" {
		t.Skip("DPI_ROOT (the repository) is not set")
	}
	return r
}

// program is a C program of the build: DPI_BIN is the folder of programs.
func program(t testing.TB, name string) string {
	bin := os.Getenv("DPI_BIN")
	if bin == "" {
		t.Skip("DPI_BIN (the build's programs) is not set")
	}
	return filepath.Join(bin, name)
}

func demo(t testing.TB, name string) string { return filepath.Join(root(t), "weights/demo", name) }

func golden(t testing.TB) []string {
	files, err := filepath.Glob(filepath.Join(root(t), "tests/e2e/golden/*.h5"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden bundles: %v", err)
	}
	return files
}

func load(t testing.TB, path string, options ...dpi.Option) *dpi.Model {
	t.Helper()
	m, err := dpi.Load(path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// lcg draws as tests/bindings/reference_scores.c does.
type lcg uint64

func (x *lcg) draw() uint64 {
	*x = *x*6364136223846793005 + 1442695040888963407
	return uint64(*x) >> 33
}

type drawn struct {
	ids, offsets []int64
	dense        []float32
	weights      []float32 // nil without a weighted feature
}

func (x *lcg) fill(features []dpi.Feature, rows, wanted int, bags bool) drawn {
	d := drawn{offsets: []int64{0}}
	anyWeighted := false
	mine := func(f *dpi.Feature) bool { return wanted < 0 || f.Shared == (wanted == 1) }
	for r := 0; r < rows; r++ {
		for i := range features {
			f := &features[i]
			if f.Slot < 0 || !mine(f) {
				continue
			}
			n := uint64(1)
			if bags && f.Kind == dpi.Sequence {
				n = x.draw() % 5
			}
			for k := uint64(0); k < n; k++ {
				d.ids = append(d.ids, int64(x.draw()%uint64(f.VocabSize)))
				weight := float32(1)
				if bags && f.Weighted {
					anyWeighted = true
					weight = float32(x.draw()%100+1) / 64
				}
				d.weights = append(d.weights, weight)
			}
			d.offsets = append(d.offsets, int64(len(d.ids)))
		}
		for i := range features {
			f := &features[i]
			if f.Slot >= 0 || !mine(f) {
				continue
			}
			for k := 0; k < f.Dim; k++ {
				d.dense = append(d.dense, float32(x.draw()%2001)/1000-1)
			}
		}
	}
	if !anyWeighted {
		d.weights = nil
	}
	return d
}

// batchOf draws the batch that reference_scores draws for the same arguments.
func batchOf(m *dpi.Model, rows int, seed uint64, mode string) *dpi.Batch {
	x := lcg(seed)
	features := m.Schema()
	if mode == "shared" {
		u := x.fill(features, 3, 1, true)
		i := x.fill(features, rows, 0, true)
		return &dpi.Batch{Rows: rows, IDs: i.ids, Offsets: i.offsets, Dense: i.dense, Weights: i.weights,
			Shared: &dpi.SharedPart{Offsets: []int64{0, int64(rows / 3), int64(rows / 3), int64(rows)}, IDs: u.ids,
				BagOffsets: u.offsets, Dense: u.dense, Weights: u.weights}}
	}
	d := x.fill(features, rows, -1, mode == "bags")
	b := &dpi.Batch{Rows: rows, IDs: d.ids, Dense: d.dense, Weights: d.weights}
	if mode == "bags" {
		b.Offsets = d.offsets
	}
	return b
}

// outFor is a NaN-filled result with a guard behind it.
func outFor(m *dpi.Model, rows int) []float32 {
	out := make([]float32, rows*m.Info().Heads+4)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	return out[:rows*m.Info().Heads]
}

func predict(t testing.TB, m *dpi.Model, b *dpi.Batch) []float32 {
	t.Helper()
	out := outFor(m, b.Rows)
	if err := m.Predict(background, b, out); err != nil {
		t.Fatal(err)
	}
	for _, guard := range out[len(out) : len(out)+4] {
		if guard == guard {
			t.Fatal("written behind the result")
		}
	}
	return out
}

func hexLines(out []float32, heads int) string {
	var s strings.Builder
	for i, x := range out {
		end := " "
		if (i+1)%heads == 0 {
			end = "\n"
		}
		fmt.Fprintf(&s, "%08x%s", math.Float32bits(x), end)
	}
	return s.String()
}

func reference(t testing.TB, bundle string, rows int, seed uint64, mode string) string {
	t.Helper()
	out, err := exec.Command(program(t, "tests/reference_scores"), bundle, fmt.Sprint(rows), fmt.Sprint(seed), mode).Output()
	if err != nil {
		t.Fatalf("reference_scores %s: %v", bundle, err)
	}
	return string(out)
}

func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d scores, expected %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) || got[i] != got[i] {
			t.Fatalf("%s: score %d is %v (%08x), expected %v", what, i, got[i], math.Float32bits(got[i]), want[i])
		}
	}
}

// wants checks the code by errors.Is and errors.As.
func wants(t testing.TB, err error, code dpi.Code) *dpi.Error {
	t.Helper()
	var e *dpi.Error
	if !errors.As(err, &e) || !errors.Is(err, code) || e.Code != code || e.Message == "" {
		t.Fatalf("got %v, expected %v", err, code)
	}
	return e
}

func contextWithCancel() (context.Context, context.CancelFunc) { return context.WithCancel(background) }
