package bench

import (
	"context"
	"sort"
	"testing"
	"time"
)

// BenchmarkOverC measures one predict from Go and the same from C in turns, in rounds short enough that some are undisturbed on
// a busy machine, and gives the median and, as low-, the lower tenth of both sides' rounds:
//
//	c         a loop of calls in C
//	floor     one cgo call with an integer argument that runs the predict: what cgo itself costs at this size
//	shim      the hand-written call that the package makes
//	go        Model.Predict
//	done      Model.Predict under a context that can be cancelled
//	swig      the generated call
//
// All but the first as nanoseconds over c. Run with -benchtime 1x.
func BenchmarkOverC(b *testing.B) {
	for _, c := range []struct {
		name          string
		rows, n, most int
	}{{"rows=0", 0, 500, 1000}, {"rows=1", 1, 100, 1000}, {"rows=64", 64, 10, 1000}, {"rows=512", 512, 2, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFixture(b, c.rows) // without rows: the call alone
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			p := f.part()
			prepared := NewPrepared(f.handle, c.rows, len(p.Dense), len(p.IDs), len(f.out))
			defer prepared.Free()
			timed := func(call func()) func() float64 {
				return func() float64 {
					start := time.Now()
					for i := 0; i < c.n; i++ {
						call()
					}
					return float64(time.Since(start))
				}
			}
			names := []string{"c", "floor", "shim", "go", "done", "swig"}
			ways := []func() float64{
				func() float64 { return float64(Loop(f.handle, c.n, c.rows, p.Dense, p.IDs, f.out)) },
				timed(func() { prepared.Predict() }),
				timed(func() { native1(f, &p) }),
				timed(func() { _ = f.model.Predict(context.Background(), f.batch, f.out) }),
				timed(func() { _ = f.model.Predict(ctx, f.batch, f.out) }),
				timed(func() { swig1(f, &p) }),
			}
			rounds := make([][]float64, len(ways))
			for round := 0; round < c.most; round++ {
				for w, way := range ways {
					rounds[w] = append(rounds[w], way()/float64(c.n))
				}
			}
			low, mid := make([]float64, len(ways)), make([]float64, len(ways))
			for w := range ways {
				sort.Float64s(rounds[w])
				low[w], mid[w] = rounds[w][c.most/10], rounds[w][c.most/2]
			}
			b.ReportMetric(mid[0], "c-ns")
			b.ReportMetric(low[0], "low-c-ns")
			for w := 1; w < len(ways); w++ {
				b.ReportMetric(mid[w]-mid[0], names[w]+"-over-c-ns")
				b.ReportMetric(low[w]-low[0], "low-"+names[w]+"-over-c-ns")
			}
		})
	}
}
