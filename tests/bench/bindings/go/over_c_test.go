package bench

import (
	"context"
	"sort"
	"testing"
	"time"
)

// BenchmarkOverC measures one predict from Go and the same from C in turns, 200 rounds of some hundred calls, and gives
// the median of the rounds' differences: what a busy machine adds hits both sides. Run with -benchtime 1x.
func BenchmarkOverC(b *testing.B) {
	for _, c := range []struct {
		name        string
		rows, calls int
	}{{"rows=0", 0, 2000}, {"rows=1", 1, 1000}, {"rows=64", 64, 200}, {"rows=512", 512, 40}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFixture(b, c.rows) // without rows: the call alone
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			p := f.part()
			ways := []func(){
				func() { _ = f.model.Predict(context.Background(), f.batch, f.out) },
				func() { _ = f.model.Predict(ctx, f.batch, f.out) },
				func() { native1(f, &p) },
				func() { swig1(f, &p) },
				Nothing,
			}
			differences := make([][]float64, len(ways))
			inC := []float64{}
			for round := 0; round < 200; round++ {
				base := float64(Loop(f.handle, c.calls, c.rows, p.Dense, p.IDs, f.out)) / float64(c.calls)
				inC = append(inC, base)
				for w, way := range ways {
					start := time.Now()
					for i := 0; i < c.calls; i++ {
						way()
					}
					differences[w] = append(differences[w], float64(time.Since(start))/float64(c.calls)-base)
				}
			}
			b.ReportMetric(median(inC), "c-ns")
			for w, name := range []string{"go-over-c-ns", "cancellable-over-c-ns", "shim-over-c-ns", "swig-over-c-ns", "empty-minus-c-ns"} {
				b.ReportMetric(median(differences[w]), name)
			}
		})
	}
}

func median(x []float64) float64 {
	sort.Float64s(x)
	return x[len(x)/2]
}
