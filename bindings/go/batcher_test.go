package dpi_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dpiframe.org/dpi"
)

// waiting makes a request wait for others for a second, even on an idle machine.
var waiting = dpi.WithOption("batch.max_delay_us", "1000000")

func batcher(t testing.TB, m *dpi.Model, options ...dpi.Option) *dpi.Batcher {
	t.Helper()
	b, err := m.NewBatcher(options...)
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

func strict(t testing.TB, path string) *dpi.Model {
	return quiet(t, path, dpi.WithOption("determinism", "strict"))
}

// quiet is a model whose messages are not for the other tests: callers wait for contexts.
func quiet(t testing.TB, path string, options ...dpi.Option) *dpi.Model {
	env, err := dpi.NewEnv()
	must(t, err)
	t.Cleanup(func() { must(t, env.Close()) })
	return load(t, path, append(options, dpi.WithEnv(env), dpi.WithDevice("cpu"))...)
}

// done receives a completion, which comes within a minute or never.
func done(t testing.TB, told <-chan dpi.Completion) dpi.Completion {
	t.Helper()
	select {
	case c := <-told:
		return c
	case <-time.After(time.Minute):
		t.Fatal("no completion")
	}
	return dpi.Completion{}
}

// status reads the counts of StatusJSON.
func status(t testing.TB, b *dpi.Batcher) map[string]interface{} {
	t.Helper()
	text, err := b.StatusJSON()
	must(t, err)
	counts := map[string]interface{}{}
	must(t, json.Unmarshal([]byte(text), &counts))
	return counts
}

func TestBatcherGivesTheBitsOfDirectCalls(t *testing.T) {
	for _, c := range []struct{ path, mode string }{{demo(t, "adult_widedeep.h5"), "plain"}, {demo(t, "msweb_deepfm.h5"), "bags"},
		{golden(t)[0], "plain"}, {demo(t, "msweb_can.h5"), "shared"}} {
		m := strict(t, c.path)
		b := batcher(t, m, dpi.WithOption("batch.max_delay_us", "500"), dpi.WithOption("batch.queue", "16"))
		var callers sync.WaitGroup
		for i := 0; i < 16; i++ {
			callers.Add(1)
			go func(i int) {
				defer callers.Done()
				for round := 0; round < 8; round++ {
					rows := 3 * (1 + (i+round)%4)
					batch := batchOf(m, rows, uint64(100*i+round), c.mode)
					want, got := outFor(m, rows), outFor(m, rows)
					must(t, m.Predict(background, batch, want))
					version, err := b.PredictVersion(background, batch, got)
					if err != nil || version != m.Info().Version {
						t.Errorf("version %d, %v", version, err)
						return
					}
					sameBits(t, c.mode, got, want)
					submitted := outFor(m, rows)
					told, err := b.Submit(background, batch, submitted)
					must(t, err)
					for k := range batch.IDs { // it was read: what is written here is not scored
						batch.IDs[k] = -1
					}
					for k := range batch.Dense {
						batch.Dense[k] = float32(math.NaN())
					}
					runtime.GC()
					if end := done(t, told); end.Err != nil || end.Version != m.Info().Version || end.Run <= 0 || end.Queued < 0 {
						t.Errorf("%+v", end)
						return
					}
					sameBits(t, c.mode+" submitted", submitted, want)
				}
			}(i)
		}
		callers.Wait()
		counts := status(t, b)
		if counts["submitted"] != 16*8.0 || counts["completed"] != 16*8.0 || counts["chunk_requests"].(float64) <= counts["chunks"].(float64) {
			t.Errorf("nothing was merged: %v", counts)
		}
	}
}

func TestBatcherScoresRawRows(t *testing.T) {
	m := strict(t, demo(t, "adult_widedeep.h5"))
	b := batcher(t, m)
	r, err := m.NewRows()
	must(t, err)
	defer r.Close()
	fill := func(age float64) {
		r.Clear()
		must(t, r.Begin())
		must(t, r.Set("age", age))
	}
	want, got := outFor(m, 1), outFor(m, 1)
	fill(39)
	must(t, r.Predict(background, want))
	if _, err := b.PredictRows(background, r, got); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "rows", got, want)
	got = outFor(m, 1)
	told, err := b.SubmitRows(background, r, got)
	must(t, err)
	fill(80) // the rows are free again
	must(t, done(t, told).Err)
	sameBits(t, "submitted rows", got, want)
	other := strict(t, demo(t, "bank_dcnv2.h5"))
	_, err = batcher(t, other).PredictRows(background, r, got)
	wants(t, err, dpi.InvalidArgument)
	_, err = batcher(t, other).SubmitRows(background, r, got)
	wants(t, err, dpi.InvalidArgument)
	_, err = b.PredictRows(background, nil, got)
	wants(t, err, dpi.InvalidArgument)
	must(t, r.Close())
	_, err = b.SubmitRows(background, r, got)
	wants(t, err, dpi.Closed)
}

func TestBatcherErrorsAreTheRequestsOwn(t *testing.T) {
	m := quiet(t, demo(t, "msweb_deepfm.h5"))
	b := batcher(t, m)
	bad := batchOf(m, 3, 1, "plain")
	bad.IDs[2*m.Info().Slots+m.Schema()[m.FeatureIndex("visits")].Slot] = 7 // its rule for ids outside the vocabulary is an error
	direct := wants(t, m.Predict(background, bad, outFor(m, 3)), dpi.InvalidArgument)
	e := wants(t, b.Predict(background, bad, outFor(m, 3)), dpi.InvalidArgument)
	if e.Row != 2 || e.Feature != direct.Feature || e.Message != direct.Message {
		t.Errorf("%+v, direct %+v", e, direct)
	}
	_, err := b.Submit(background, bad, outFor(m, 3))
	if e := wants(t, err, dpi.InvalidArgument); e.Row != 2 {
		t.Errorf("%+v", e)
	}
	good := batchOf(m, 2, 1, "plain")
	for _, batch := range []*dpi.Batch{nil, {Rows: -1}, {Rows: 2, IDs: []int64{1}}} {
		wants(t, b.Predict(background, batch, outFor(m, 2)), dpi.InvalidArgument)
		_, err := b.Submit(background, batch, outFor(m, 2))
		wants(t, err, dpi.InvalidArgument)
	}
	wants(t, b.Predict(background, good, nil), dpi.InvalidArgument)
	_, err = b.Submit(background, good, make([]float32, 1))
	wants(t, err, dpi.InvalidArgument)
	_, err = b.Submit(background, &dpi.Batch{}, nil)
	wants(t, err, dpi.InvalidArgument)
	for _, key := range []string{"batch.max_rows", "batch.queue"} {
		_, err := m.NewBatcher(dpi.WithOption(key, "0"))
		wants(t, err, dpi.InvalidArgument)
	}
	_, err = m.NewBatcher(dpi.WithOption("batch.max_row", "1"))
	wants(t, err, dpi.NotFound)
}

func TestBatcherCancels(t *testing.T) {
	m := quiet(t, demo(t, "adult_widedeep.h5"))
	b := batcher(t, m, waiting)
	batch := batchOf(m, 1, 1, "plain")
	untouched := func(out []float32) {
		t.Helper()
		for _, x := range out {
			if x == x {
				t.Fatal("a cancelled request wrote a score")
			}
		}
	}
	ctx, cancel := contextWithCancel()
	out := outFor(m, 1)
	told, err := b.Submit(ctx, batch, out)
	must(t, err)
	cancel()
	c := done(t, told)
	wants(t, c.Err, dpi.Cancelled)
	if !errors.Is(c.Err, context.Canceled) || c.Run != 0 || c.Version != 0 {
		t.Errorf("%+v", c)
	}
	untouched(out)
	short, stop := context.WithTimeout(background, 30*time.Millisecond)
	defer stop()
	told, err = b.Submit(short, batch, out)
	must(t, err)
	wants(t, done(t, told).Err, dpi.Timeout)
	untouched(out)
	wants(t, b.Predict(ctx, batch, out), dpi.Cancelled)
	wants(t, b.Predict(short, batch, out), dpi.Timeout)
	_, err = b.Submit(ctx, batch, out)
	wants(t, err, dpi.Cancelled)
	_, err = b.Submit(short, batch, out)
	wants(t, err, dpi.Timeout)
	later, end := contextWithCancel()
	go func() { time.Sleep(20 * time.Millisecond); end() }()
	wants(t, b.Predict(later, batch, out), dpi.Cancelled)
	untouched(out)
}

// TestBatcherClosesOverWork: every submit has one completion, whatever overlaps, and no call is left.
func TestBatcherClosesOverWork(t *testing.T) {
	m := strict(t, demo(t, "adult_widedeep.h5"))
	batch := batchOf(m, 2, 7, "plain")
	want := predict(t, m, batch)
	for round := 0; round < 20; round++ {
		b, err := m.NewBatcher(dpi.WithOption("batch.max_delay_us", []string{"0", "300", "1000000"}[round%3]), dpi.WithConcurrency(4))
		must(t, err)
		var callers sync.WaitGroup
		var submitted, ended atomic.Int64
		for i := 0; i < 8; i++ {
			callers.Add(1)
			go func(i int) {
				defer callers.Done()
				random := rand.New(rand.NewSource(int64(100*round + i)))
				for {
					ctx, cancel := contextWithCancel()
					defer cancel()
					out := outFor(m, 2)
					if i < 3 {
						err := b.Predict(background, batch, out)
						if errors.Is(err, dpi.ErrClosed) || errors.Is(err, dpi.ErrCancelled) {
							return
						}
						must(t, err)
						sameBits(t, "blocking", out, want)
						continue
					}
					told, err := b.Submit(ctx, batch, out)
					if errors.Is(err, dpi.ErrQueueFull) {
						time.Sleep(time.Millisecond)
						continue
					}
					if err != nil {
						wants(t, err, dpi.Closed)
						return
					}
					submitted.Add(1)
					if random.Intn(3) == 0 {
						cancel()
					}
					c := done(t, told)
					ended.Add(1)
					if c.Err == nil {
						sameBits(t, "submitted", out, want)
					} else {
						wants(t, c.Err, dpi.Cancelled)
					}
					select {
					case again := <-told:
						t.Errorf("a second completion: %+v", again)
					default:
					}
				}
			}(i)
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		if round%2 == 0 {
			must(t, b.Close())
		} else {
			ctx, cancel := context.WithTimeout(background, 2*time.Millisecond)
			if err := b.Shutdown(ctx); err != nil {
				wants(t, err, dpi.Timeout)
			}
			cancel()
		}
		callers.Wait()
		if submitted.Load() != ended.Load() {
			t.Fatalf("%d submitted, %d ended", submitted.Load(), ended.Load())
		}
	}
}

func TestBatcherAfterClose(t *testing.T) {
	m := quiet(t, demo(t, "adult_widedeep.h5"))
	b, err := m.NewBatcher()
	must(t, err)
	r, err := m.NewRows()
	must(t, err)
	defer r.Close()
	batch, out := batchOf(m, 1, 1, "plain"), outFor(m, 1)
	var told []<-chan dpi.Completion
	for i := 0; i < 20; i++ {
		c, err := b.Submit(background, batch, out[:m.Info().Heads:m.Info().Heads])
		must(t, err)
		told = append(told, c)
	}
	must(t, b.Shutdown(background)) // all of them are scored
	must(t, b.Close())
	for _, c := range told {
		must(t, done(t, c).Err)
	}
	wants(t, b.Predict(background, batch, out), dpi.Closed)
	_, err = b.Submit(background, batch, out)
	wants(t, err, dpi.Closed)
	_, err = b.PredictRows(background, r, out)
	wants(t, err, dpi.Closed)
	_, err = b.SubmitRows(background, r, out)
	wants(t, err, dpi.Closed)
	_, err = b.StatusJSON()
	wants(t, err, dpi.Closed)
	must(t, m.Close())
	_, err = m.NewBatcher()
	wants(t, err, dpi.Closed)
	must(t, m.Close())
}

func TestBatcherKeepsItsModel(t *testing.T) {
	m := strict(t, demo(t, "adult_widedeep.h5"))
	batch := batchOf(m, 2, 3, "plain")
	want := predict(t, m, batch)
	b, err := m.NewBatcher()
	must(t, err)
	must(t, m.Close())
	out := make([]float32, len(want))
	must(t, b.Predict(background, batch, out))
	sameBits(t, "of a closed model", out, want)
	must(t, b.Close())
}

func TestBatcherOverAnEndpoint(t *testing.T) {
	bundle := versions(t)
	e := endpoint(t, "batched")
	b, err := e.NewBatcher(dpi.WithOption("batch.max_delay_us", "200"))
	must(t, err)
	first := &dpi.Batch{Rows: 1, IDs: []int64{1, 2}}
	wants(t, b.Predict(background, first, make([]float32, 1)), dpi.NotFound)
	_, err = b.Submit(background, first, make([]float32, 1))
	wants(t, err, dpi.NotFound)
	must(t, e.Load(bundle("1"), 1))
	var stop atomic.Bool
	var asked atomic.Int64
	var callers sync.WaitGroup
	for i := 0; i < 8; i++ {
		callers.Add(1)
		go func(id int64) {
			defer callers.Done()
			batch := &dpi.Batch{Rows: 2, IDs: []int64{id, 1, id, 2}}
			for out := make([]float32, 2); !stop.Load(); asked.Add(1) {
				version, err := b.PredictVersion(background, batch, out)
				if id%2 == 1 && err == nil {
					told, submitted := b.Submit(background, batch, out)
					if err = submitted; err == nil {
						c := done(t, told)
						version, err = c.Version, c.Err
					}
				}
				for r, score := range out {
					if err != nil || tagOf(score, id+int64(r+1)) != int(version%tags) {
						t.Errorf("version %d, scores %v: %v", version, out, err)
						return
					}
				}
			}
		}(int64(i))
	}
	for n := uint64(2); n < 60; n++ {
		must(t, e.Load(bundle([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}[n%tags]), n))
	}
	stop.Store(true)
	callers.Wait()
	if asked.Load() < 50 {
		t.Errorf("%d requests", asked.Load())
	}
	must(t, e.Close()) // its memory stays until the batcher goes
	out := make([]float32, 1)
	version, err := b.PredictVersion(background, first, out)
	if err != nil || version != 59 || tagOf(out[0], 3) != 59%tags {
		t.Errorf("after the endpoint's Close: version %d, %v, %v", version, out, err)
	}
	must(t, b.Close())
	_, err = e.NewBatcher()
	wants(t, err, dpi.Closed)
}

// TestBatcherIsCollected: one that nobody closed ends its threads, and so does one whose completions nobody received.
func TestBatcherIsCollected(t *testing.T) {
	m := quiet(t, demo(t, "adult_widedeep.h5"))
	for i := 0; i < 40; i++ { // a model has at most 16 batchers
		b, err := m.NewBatcher()
		for wait := 0; err != nil && wait < 100; wait++ {
			wants(t, err, dpi.Unsupported)
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
			b, err = m.NewBatcher()
		}
		must(t, err)
		_, err = b.Submit(background, batchOf(m, 1, 1, "plain"), outFor(m, 1))
		must(t, err)
	}
}
