package dpi

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"dpiframe.org/dpi/internal/native"
)

// Batcher merges concurrent small requests to a model or an endpoint into one chunk, so that a busy service computes more rows a second.
// A request on an idle machine starts at once. Predict and PredictRows wait for their scores; Submit and SubmitRows return at once and
// tell the end by a channel. All methods may be called from any number of goroutines at once.
type Batcher struct {
	handle uintptr
	gate   gate
	known  func() (*Model, error) // the shape of what it scores
	jobs   *jobs

	completions native.Completions // the poller's
	of          interface{}        // the Model or Endpoint: not collected before the batcher
	freed       func()             // called once the handle is free

	mu     sync.RWMutex // held for reading by all but Predict, which goes through the gate
	closed bool
	once   sync.Once
}

// batcherSeats is how many goroutines are in the library at once by default, each on an OS thread: those that wait for a chunk are what
// the next chunk is made of, so there are more than processors.
const batcherSeats = 64

// NewBatcher makes a batcher over the model. Options are WithOption with a key that batcher.h lists, such as "batch.max_rows" and
// "batch.max_delay_us", and WithConcurrency (64 by default): how many goroutines wait in Predict at once.
func (m *Model) NewBatcher(options ...Option) (*Batcher, error) {
	return newBatcher(options, &Batcher{of: m, known: func() (*Model, error) { return m, nil }, freed: func() {}}, m.with,
		func(o uintptr, out *uintptr, e uintptr) int32 { return native.Dpi_batcher_create(m.handle, o, out, e) })
}

// NewBatcher makes a batcher over the endpoint; a chunk is scored by one version.
func (e *Endpoint) NewBatcher(options ...Option) (*Batcher, error) {
	return newBatcher(options, &Batcher{of: e, known: e.known, freed: e.give}, e.with,
		func(o uintptr, out *uintptr, err uintptr) int32 {
			status := native.Dpi_batcher_create_endpoint(e.handle, o, out, err)
			if status == 0 {
				e.batchers.Add(1)
			}
			return status
		})
}

func newBatcher(options []Option, b *Batcher, with func(func() error) error,
	create func(o uintptr, out *uintptr, e uintptr) int32) (*Batcher, error) {
	c, err := newConfig(append([]Option{WithConcurrency(batcherSeats)}, options...))
	if err != nil {
		return nil, err
	}
	completions, ok := native.NewCompletions()
	if !ok {
		return nil, plainError(OutOfMemory, "no memory for completions")
	}
	b.completions = completions
	b.jobs = newJobs()
	if err := b.gate.open(c.concurrency); err != nil {
		completions.Free()
		return nil, err
	}
	scratch := b.gate.seats[0].call // nobody else has the gate yet
	var handle uintptr
	o, err := c.make(scratch)
	if err == nil {
		err = with(func() error {
			if create(o, &handle, scratch.Error()) != 0 {
				return failure(scratch.Failure())
			}
			return nil
		})
		native.Dpi_options_free(o)
	}
	if err != nil {
		b.gate.free()
		completions.Free()
		return nil, err
	}
	b.handle = handle
	runtime.SetFinalizer(b, func(b *Batcher) { _ = b.Close() })
	return b, nil
}

// parts are a checked batch as the library takes it.
type parts struct {
	item, shared  native.Part
	sharedOffsets []int64
	layout        int32
}

func (b *Batcher) parts(batch *Batch) (p parts, err error) {
	if batch == nil || batch.Rows < 0 || batch.DenseStride < 0 {
		return p, invalid("the batch is nil, or its rows or dense stride are negative")
	}
	shape, err := b.known()
	if err != nil {
		return p, err
	}
	p.item = native.Part{Rows: int64(batch.Rows), Stride: int64(batch.DenseStride), Dense: batch.Dense, IDs: batch.IDs,
		Offsets: batch.Offsets, Weights: batch.Weights}
	p.layout = int32(batch.Layout)
	p.sharedOffsets, err = shape.checkParts(batch, &p.item, &p.shared)
	return p, err
}

// Predict is Model.Predict through the batcher: the same scores, in one chunk with those of other callers. Beside ErrTimeout and
// ErrCancelled it returns ErrQueueFull when too many requests wait.
func (b *Batcher) Predict(ctx context.Context, batch *Batch, out []float32) error {
	_, err := b.PredictVersion(ctx, batch, out)
	return err
}

// PredictVersion is Predict, and tells which version scored all rows.
func (b *Batcher) PredictVersion(ctx context.Context, batch *Batch, out []float32) (uint64, error) {
	p, err := b.parts(batch)
	if err != nil {
		return 0, err
	}
	version, err := b.call(ctx, func(c native.Call, timeout int64) int32 {
		return native.BatcherPredict(b.handle, c, &p.item, p.layout, &p.shared, p.sharedOffsets, out, timeout)
	})
	runtime.KeepAlive(batch)
	return version, err
}

// PredictRows scores raw rows, as Rows.Predict does, through the batcher. The rows are the batcher's model's, or of any version of its
// endpoint: that version scores them.
func (b *Batcher) PredictRows(ctx context.Context, r *Rows, out []float32) (version uint64, err error) {
	if r == nil {
		return 0, invalid("the rows are nil")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == 0 {
		return 0, closedError("row batch")
	}
	return b.call(ctx, func(c native.Call, timeout int64) int32 {
		return native.Dpi_batcher_rows_predict(b.handle, r.handle, native.First(out), uint64(len(out)), c.Run(timeout), c.Error())
	})
}

// call makes one call on a seat.
func (b *Batcher) call(ctx context.Context, body func(c native.Call, timeout int64) int32) (uint64, error) {
	done := ctx.Done()
	s, err := b.gate.acquire(done, ctx)
	if err != nil {
		return 0, b.named(err)
	}
	defer runtime.KeepAlive(b)
	defer b.gate.release(s)
	timeout, err := s.begin(ctx, done, true)
	if err != nil {
		return 0, err
	}
	status := body(s.call, timeout)
	s.end(done, true)
	if status != 0 {
		return 0, s.failed(ctx)
	}
	return s.call.Version(), nil
}

// named is the gate's error with the batcher's name.
func (b *Batcher) named(err error) error {
	if e, ok := err.(*Error); ok && e.Code == Closed {
		return closedError("batcher")
	}
	return err
}

// with runs body while the batcher cannot be freed.
func (b *Batcher) with(body func() error) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return closedError("batcher")
	}
	return body()
}

// StatusJSON has what the batcher is and counts of requests and chunks, as batcher.h says.
func (b *Batcher) StatusJSON() (text string, err error) {
	err = b.with(func() error {
		text = native.Text(func(buf *byte, capacity uint64) uint64 {
			return native.Dpi_batcher_status_json(b.handle, buf, capacity)
		})
		return nil
	})
	return text, err
}

// Shutdown refuses new requests, lets those that wait finish until ctx's deadline (without one: all of them), cancels the rest, and frees the
// batcher once all calls have returned and all completions are in their channels. ErrTimeout: some were cancelled. Closing again does nothing.
// ctx's cancellation is not looked at.
func (b *Batcher) Shutdown(ctx context.Context) error {
	left := int64(0)
	if deadline, ok := ctx.Deadline(); ok {
		if left = int64(time.Until(deadline)); left < 1 {
			left = 1
		}
	}
	return b.end(left)
}

// Close is Shutdown that cancels what waits at once: it fails with ErrCancelled or ErrClosed. What runs is finished.
func (b *Batcher) Close() error {
	if err := b.end(1); err != nil && !errors.Is(err, ErrTimeout) {
		return err
	}
	return nil
}

func (b *Batcher) end(timeout int64) (err error) {
	b.once.Do(func() {
		runtime.SetFinalizer(b, nil)
		b.mu.Lock()
		b.closed = true // no submit begins any more
		b.mu.Unlock()
		err = inCall(func(c native.Call) int32 {
			return native.Dpi_batcher_close(b.handle, native.Deadline(timeout), c.Error())
		})
		b.gate.close()
		b.jobs.drained()
		native.Dpi_batcher_free(b.handle)
		b.freed()
		b.completions.Free()
		b.handle, b.of = 0, nil
	})
	return err
}
