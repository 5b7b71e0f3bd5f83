package dpi

import (
	"context"
	"runtime"
	"sync"

	"dpiframe.org/dpi/internal/native"
)

// Context is a goroutine's own handle on a model: own scratch, no hop through the model's pool, and memory for one batch
// that the engine reads in place. It keeps the model's memory alive, also past the model's Close. Calls from several
// goroutines run one after another; give each goroutine its own.
type Context struct {
	model  *Model
	mu     sync.Mutex
	handle uintptr
	seat   *seat
	view   native.View
}

// NewContext makes one for up to maxRows rows and maxIDs ids (0: one per bag).
func (m *Model) NewContext(maxRows, maxIDs int) (*Context, error) {
	s, err := newSeat()
	if err != nil {
		return nil, err
	}
	c := &Context{model: m, seat: s}
	err = m.with(func() error {
		var handle uintptr
		if native.Dpi_context_create(m.handle, int64(maxRows), int64(maxIDs), &handle, s.call.Error()) != 0 {
			return failure(s.call.Failure())
		}
		c.handle = handle
		view, status := native.GetView(handle, native.Info{Slots: m.info.Slots, DenseDim: m.info.DenseDim, Heads: m.info.Heads},
			s.call)
		if status != 0 {
			native.Dpi_context_free(handle)
			return failure(s.call.Failure())
		}
		c.view = view
		return nil
	})
	if err != nil {
		s.free()
		return nil, err
	}
	runtime.SetFinalizer(c, func(c *Context) { _ = c.Close() })
	return c, nil
}

// Dense is the memory of the rows' floats, [max rows, dense columns]. It must not be used after Close, as must none of
// the slices below.
func (c *Context) Dense() []float32 { return c.view.Dense }

// IDs is the memory of the ids.
func (c *Context) IDs() []int64 { return c.view.IDs }

// Offsets is the memory of the bags' offsets, [max rows * slots + 1].
func (c *Context) Offsets() []int64 { return c.view.Offsets }

// Weights is the memory of the ids' weights.
func (c *Context) Weights() []float32 { return c.view.Weights }

// Out is where Predict puts the scores, [max rows, heads].
func (c *Context) Out() []float32 { return c.view.Out }

// Predict scores the first rows of the context's memory into Out. ids < 0: one id per bag, Offsets is not read.
func (c *Context) Predict(ctx context.Context, rows, ids int, weights bool) error {
	return c.locked(func() error {
		done := ctx.Done()
		timeout, err := c.seat.begin(ctx, done, true)
		if err != nil {
			return err
		}
		status := native.ContextPredict(c.handle, c.seat.call, int64(rows), int64(ids), weights, timeout)
		c.seat.end(done, true)
		if status != 0 {
			return c.seat.failed(ctx)
		}
		return nil
	})
}

// PredictBatch scores any batch on the context's scratch.
func (c *Context) PredictBatch(ctx context.Context, b *Batch, out []float32) error {
	return c.locked(func() error { return c.model.run(ctx, ctx.Done(), c.seat, c.handle, b, out) })
}

// Version is the version of the model (Info.Version) that scored the last call that went well; 0 before the first.
func (c *Context) Version() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == 0 {
		return 0
	}
	return c.seat.call.Version()
}

func (c *Context) locked(body func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == 0 {
		return closedError("context")
	}
	return body()
}

// Close waits for a running call and frees the context. Closing again does nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle != 0 {
		runtime.SetFinalizer(c, nil)
		native.Dpi_context_free(c.handle)
		c.seat.free()
		c.handle, c.view = 0, native.View{}
	}
	return nil
}
