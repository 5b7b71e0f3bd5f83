package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"dpiframe.org/dpi"
	"dpiframe.org/dpi/internal/native"
)

type fixture struct {
	model  *dpi.Model
	handle uintptr // the model's own, for the layers below the package
	call   native.Call
	batch  *dpi.Batch
	out    []float32
}

func newFixture(b *testing.B, rows int) *fixture {
	path := os.Getenv("DPI_BENCH_BUNDLE")
	if path == "" {
		b.Skip("DPI_BENCH_BUNDLE is not set")
	}
	m, err := dpi.Load(path)
	if err != nil {
		b.Fatal(err)
	}
	f := &fixture{model: m}
	f.call, _ = native.NewCall()
	f.handle = *(*uintptr)(unsafe.Pointer(m)) // its first field: two loads would lie differently in the caches
	if f.batch, err = m.NewBatch(rows+1, 0); err != nil {
		b.Fatal(err)
	}
	if err = m.Reset(f.batch, rows, -1, false); err != nil {
		b.Fatal(err)
	}
	f.out = make([]float32, rows*m.Info().Heads)
	b.Cleanup(func() {
		_ = f.batch.Close()
		f.call.Free()
		_ = m.Close()
	})
	b.ReportAllocs()
	return f
}

func (f *fixture) part() native.Part {
	return native.Part{Rows: int64(f.batch.Rows), Dense: f.batch.Dense, IDs: f.batch.IDs}
}

func BenchmarkPredict(b *testing.B) {
	for _, rows := range []int{1, 64, 512} {
		for _, way := range []struct {
			name string
			run  func(b *testing.B, f *fixture)
		}{{"c", inC}, {"shim", shim}, {"go", inGo}, {"go-cancellable", cancellable}, {"swig", generated}, {"plain-cgo", plain}} {
			b.Run(fmt.Sprintf("rows=%d/%s", rows, way.name), func(b *testing.B) {
				f := newFixture(b, rows)
				way.run(b, f) // b.N calls
			})
		}
	}
}

func BenchmarkEmptyCall(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Nothing()
	}
}

func inC(b *testing.B, f *fixture) {
	b.ResetTimer()
	if Loop(f.handle, b.N, f.batch.Rows, f.batch.Dense, f.batch.IDs, f.out) < 0 {
		b.Fatal("predict failed")
	}
}

func shim(b *testing.B, f *fixture) {
	p := f.part()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if native1(f, &p) != 0 {
			b.Fatal(f.call.Failure())
		}
	}
}

func inGo(b *testing.B, f *fixture) {
	ctx := context.Background()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := f.model.Predict(ctx, f.batch, f.out); err != nil {
			b.Fatal(err)
		}
	}
}

func cancellable(b *testing.B, f *fixture) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := f.model.Predict(ctx, f.batch, f.out); err != nil {
			b.Fatal(err)
		}
	}
}

func generated(b *testing.B, f *fixture) {
	p := f.part()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if swig1(f, &p) != 0 {
			b.Fatal(f.call.Failure())
		}
	}
}

// native1 is the hand-written call alone, swig1 the generated one.
func native1(f *fixture, p *native.Part) int32 {
	return native.Predict(f.handle, f.call, p, 0, f.out, 0, false)
}

func swig1(f *fixture, p *native.Part) int32 {
	return native.Dpi_predict_flat(f.handle, p.Rows, native.First(p.Dense), uint64(len(p.Dense)), 0, native.First(p.IDs),
		uint64(len(p.IDs)), nil, 0, nil, 0, 0, native.First(f.out), uint64(len(f.out)), 0, 0, f.call.Error())
}

func plain(b *testing.B, f *fixture) {
	handle, e := f.handle, f.call.Error()
	model, report := *(*unsafe.Pointer)(unsafe.Pointer(&handle)), *(*unsafe.Pointer)(unsafe.Pointer(&e))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if Plain(model, report, f.batch.Rows, f.batch.Dense, f.batch.IDs, f.out) != 0 {
			b.Fatal(f.call.Failure())
		}
	}
}
