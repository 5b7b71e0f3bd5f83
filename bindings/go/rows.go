package dpi

import (
	"context"
	"runtime"
	"sync"

	"dpiframe.org/dpi/internal/native"
)

// Rows builds a batch from raw values with the bundle's own encoders, so that serving reads values exactly as training
// did. A feature that is not set is missing. Clear keeps the memory for the next batch. Calls from several goroutines
// run one after another, but rows are built by one at a time.
type Rows struct {
	model  *Model
	mu     sync.Mutex
	handle uintptr
	call   native.Call
	shared int // shared rows begun
}

// NewRows makes an empty batch of raw rows.
func (m *Model) NewRows() (*Rows, error) {
	call, ok := native.NewCall()
	if !ok {
		return nil, plainError(OutOfMemory, "no memory for rows")
	}
	r := &Rows{model: m, call: call}
	err := m.with(func() error {
		var handle uintptr // its own word: cgo checks the whole object that a pointer points into
		if native.Dpi_rows_create(m.handle, &handle, call.Error()) != 0 {
			return failure(call.Failure())
		}
		r.handle = handle
		return nil
	})
	if err != nil {
		call.Free()
		return nil, err
	}
	runtime.SetFinalizer(r, func(r *Rows) { _ = r.Close() })
	return r, nil
}

func (r *Rows) do(body func() int32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == 0 {
		return closedError("row batch")
	}
	if body() != 0 {
		return failure(r.call.Failure())
	}
	return nil
}

// Begin starts the next row.
func (r *Rows) Begin() error {
	return r.do(func() int32 { return native.Dpi_rows_begin(r.handle, r.call.Error()) })
}

// BeginShared starts the next shared row, before the rows that belong to it; shared features then go there.
func (r *Rows) BeginShared() error {
	return r.do(func() int32 {
		status := native.Dpi_rows_begin_shared(r.handle, r.call.Error())
		if status == 0 {
			r.shared++
		}
		return status
	})
}

// SetText sets a raw value; of a sequence it appends one element. Empty text is missing (nothing, for a sequence).
func (r *Rows) SetText(feature int, value string) error {
	return r.do(func() int32 {
		return native.Dpi_rows_set_text(r.handle, int32(feature), native.TextBytes(value), int64(len(value)), r.call.Error())
	})
}

// AddText appends one element of a sequence with its weight.
func (r *Rows) AddText(feature int, value string, weight float32) error {
	return r.do(func() int32 {
		return native.Dpi_rows_add_text(r.handle, int32(feature), native.TextBytes(value), int64(len(value)), weight,
			r.call.Error())
	})
}

// SetNumber sets a raw number, read as a quantity; NaN is missing. A feature whose ids name something refuses 2^53 and more:
// from there on a float64 stands for several integers, and SetInteger or SetText gives the one that is meant.
func (r *Rows) SetNumber(feature int, value float64) error {
	return r.do(func() int32 { return native.Dpi_rows_set_number(r.handle, int32(feature), value, r.call.Error()) })
}

// SetInteger sets a raw integer, read as its decimal digits would be by SetText; of a sequence it appends one element.
func (r *Rows) SetInteger(feature int, value int64) error {
	return r.do(func() int32 { return native.Dpi_rows_set_integer(r.handle, int32(feature), value, r.call.Error()) })
}

// SetUnsigned is SetInteger for all of uint64.
func (r *Rows) SetUnsigned(feature int, value uint64) error {
	return r.do(func() int32 { return native.Dpi_rows_set_unsigned(r.handle, int32(feature), value, r.call.Error()) })
}

// AddIntegers appends raw integers to a sequence, all or none, with one weight each or nil.
func (r *Rows) AddIntegers(feature int, values []int64, weights []float32) error {
	if weights != nil && len(weights) != len(values) {
		return invalid("%d weights for %d integers", len(weights), len(values))
	}
	return r.do(func() int32 {
		return native.Dpi_rows_add_integers(r.handle, int32(feature), native.First(values), native.First(weights),
			int64(len(values)), r.call.Error())
	})
}

// SetIDs sets ids that are encoded already, with one weight each or nil.
func (r *Rows) SetIDs(feature int, ids []int64, weights []float32) error {
	if weights != nil && len(weights) != len(ids) {
		return invalid("%d weights for %d ids", len(weights), len(ids))
	}
	return r.do(func() int32 {
		return native.Dpi_rows_set_ids(r.handle, int32(feature), native.First(ids), native.First(weights), int64(len(ids)),
			r.call.Error())
	})
}

// SetFloats sets the floats of a numeric or dense feature.
func (r *Rows) SetFloats(feature int, values []float32) error {
	return r.do(func() int32 {
		return native.Dpi_rows_set_floats(r.handle, int32(feature), native.First(values), int64(len(values)), r.call.Error())
	})
}

// Count is the number of rows begun.
func (r *Rows) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == 0 {
		return 0
	}
	return int(native.Dpi_rows_count(r.handle))
}

// Clear forgets all rows and keeps the memory.
func (r *Rows) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle != 0 {
		native.Dpi_rows_clear(r.handle)
		r.shared = 0
	}
}

// Predict scores the rows, as Model.Predict does.
func (r *Rows) Predict(ctx context.Context, out []float32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == 0 {
		return closedError("row batch")
	}
	done := ctx.Done()
	s, err := r.model.gate.acquire(done, ctx)
	if err != nil {
		return err
	}
	defer r.model.gate.release(s)
	watch := done != nil && r.model.watches(int(native.Dpi_rows_count(r.handle)))
	timeout, err := s.begin(ctx, done, watch)
	if err != nil {
		return err
	}
	status := native.Dpi_rows_predict(r.handle, native.First(out), uint64(len(out)), s.call.Run(timeout), s.call.Error())
	s.end(done, watch)
	if status != 0 {
		return s.failed(ctx)
	}
	return nil
}

// Close frees the rows. Closing again does nothing.
func (r *Rows) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle != 0 {
		runtime.SetFinalizer(r, nil)
		native.Dpi_rows_free(r.handle)
		r.call.Free()
		r.handle = 0
	}
	return nil
}
