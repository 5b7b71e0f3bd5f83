package dpi

import (
	"context"
	"runtime"

	"dpiframe.org/dpi/internal/native"
)

// Layout is the order of the bags in IDs and Offsets.
type Layout int32

// Layouts.
const (
	RowMajor  Layout = 0 // bag = row * slots + slot
	SlotMajor Layout = 1 // bag = slot * rows + row
)

// Batch holds rows to score; nothing of it is copied. One goroutine may fill it at a time, any number may predict it.
//
// Without a Shared part it holds every feature of the schema. With one it holds item features only, and the user's
// features are given once per shared row. Both ways give the same scores.
type Batch struct {
	Rows        int
	IDs         []int64   // without Offsets one id per bag, rows * slots; else all bags one after another
	Offsets     []int64   // nil, or rows * slots + 1: bag b is IDs[Offsets[b]:Offsets[b+1]]
	Weights     []float32 // nil, or one per id; only bags of weighted features may have weights other than 1
	Dense       []float32 // [rows, dense columns], NaN = missing
	DenseStride int       // floats between rows of Dense; 0 = dense columns
	Layout      Layout
	Shared      *SharedPart

	memory *native.Memory
	full   native.Part // the slices over memory at their full length: IDs, Offsets, Weights, Dense
}

// SharedPart holds the user features of a batch: item rows Offsets[s] .. Offsets[s+1]-1 belong to shared row s.
type SharedPart struct {
	Offsets     []int64 // shared rows + 1
	IDs         []int64
	BagOffsets  []int64 // as Batch.Offsets, over the shared slots
	Weights     []float32
	Dense       []float32
	DenseStride int
}

// NewBatch makes a batch over C memory for up to maxRows rows and maxIDs ids (0: one per bag), to be filled again and
// again: Reset gives its slices their lengths. The garbage collector neither scans nor counts that memory. Close frees
// it; the slices must not be used after that.
func (m *Model) NewBatch(maxRows, maxIDs int) (*Batch, error) {
	slots, dense := m.info.Slots, m.info.DenseDim
	if maxRows < 1 || maxRows > 1<<24 || maxIDs < 0 || maxIDs > 1<<32 {
		return nil, invalid("a batch of %d rows and %d ids, expected 1 .. %d and 0 .. 2^32", maxRows, maxIDs, 1<<24)
	}
	if maxIDs == 0 {
		maxIDs = maxRows * slots
	}
	bags := maxRows*slots + 1
	memory, ok := native.Allocate(8*(maxIDs+bags) + 4*(maxIDs+maxRows*dense))
	if !ok {
		return nil, plainError(OutOfMemory, "no memory for a batch of %d rows and %d ids", maxRows, maxIDs)
	}
	b := &Batch{memory: &memory}
	b.full = native.Part{Rows: int64(maxRows), IDs: memory.Int64s(0, maxIDs), Offsets: memory.Int64s(8*maxIDs, bags),
		Weights: memory.Float32s(8*(maxIDs+bags), maxIDs), Dense: memory.Float32s(8*(maxIDs+bags)+4*maxIDs, maxRows*dense)}
	runtime.SetFinalizer(b, func(b *Batch) { _ = b.Close() })
	return b, b.reset(maxRows, -1, false, m)
}

// Reset prepares the batch for rows rows. ids < 0: one id per bag, no offsets; else the number of ids, with offsets to
// fill. weights: with weights to fill. The contents are what the batch held before.
func (m *Model) Reset(b *Batch, rows, ids int, weights bool) error {
	return b.reset(rows, ids, weights, m)
}

func (b *Batch) reset(rows, ids int, weights bool, m *Model) error {
	if b.memory == nil {
		return closedError("batch")
	}
	bags, dense := rows*m.info.Slots, rows*m.info.DenseDim
	n := ids
	if ids < 0 {
		n = bags
	}
	if rows < 0 || int64(rows) > b.full.Rows || n > len(b.full.IDs) || bags >= len(b.full.Offsets) || dense > len(b.full.Dense) {
		return invalid("%d rows with %d ids do not fit a batch made for %d rows and %d ids", rows, n, b.full.Rows,
			len(b.full.IDs))
	}
	b.Rows, b.IDs, b.Dense, b.Offsets, b.Weights = rows, b.full.IDs[:n], b.full.Dense[:dense], nil, nil
	if ids >= 0 {
		b.Offsets = b.full.Offsets[:bags+1]
	}
	if weights {
		b.Weights = b.full.Weights[:n]
	}
	return nil
}

// Close frees the memory of a batch made by NewBatch and empties any batch. Closing again does nothing.
func (b *Batch) Close() error {
	if b.memory != nil {
		runtime.SetFinalizer(b, nil)
		b.memory.Free()
	}
	*b = Batch{}
	return nil
}

// Predict scores a batch: out receives rows x heads floats, row by row. It honours the context's deadline and
// cancellation on entry, while waiting and between chunks of Info.MaxRows rows; they come back as ErrTimeout and
// ErrCancelled (and match context.DeadlineExceeded and context.Canceled). Nothing is allocated in steady state. On error out is not touched,
// except that a batch of several chunks may have written rows before the failing one.
func (m *Model) Predict(ctx context.Context, b *Batch, out []float32) error {
	done := ctx.Done()
	s, err := m.gate.acquire(done, ctx)
	if err != nil {
		return err
	}
	if done == nil && b != nil && b.Shared == nil && b.Rows >= 0 && b.DenseStride >= 0 { // as run, without its detours
		if native.PredictNow(m.handle, s.call, b.Rows, b.DenseStride, b.Dense, b.IDs, b.Offsets, b.Weights, int32(b.Layout), out) != 0 {
			err = failure(s.call.Failure())
		}
		runtime.KeepAlive(b)
	} else {
		err = m.run(ctx, done, s, 0, b, out)
	}
	m.gate.release(s)
	runtime.KeepAlive(m)
	return err
}

// PredictVersion is Predict, and tells which version of the model (Info.Version) scored all rows.
func (m *Model) PredictVersion(ctx context.Context, b *Batch, out []float32) (uint64, error) {
	if b == nil || b.Rows < 0 || b.DenseStride < 0 {
		return 0, invalid("the batch is nil, or its rows or dense stride are negative")
	}
	done := ctx.Done()
	s, err := m.gate.acquire(done, ctx)
	if err != nil {
		return 0, err
	}
	p := native.Part{Rows: int64(b.Rows), Stride: int64(b.DenseStride), Dense: b.Dense, IDs: b.IDs, Offsets: b.Offsets,
		Weights: b.Weights}
	err = m.runParts(ctx, done, s, 0, b, &p, out)
	version := s.call.Version()
	m.gate.release(s)
	runtime.KeepAlive(m)
	if err != nil {
		return 0, err
	}
	return version, nil
}

// watches tells whether a call of so many rows may look at its cancel flag after entry: between chunks, or while it
// waits for one of the library's contexts.
func (m *Model) watches(rows int) bool { return m.waits || rows > m.info.MaxRows }

// run makes one call on a seat, through the model's pool or on a context.
func (m *Model) run(ctx context.Context, done <-chan struct{}, s *seat, on uintptr, b *Batch, out []float32) error {
	if b == nil {
		return invalid("the batch is nil")
	}
	if b.Rows < 0 || b.DenseStride < 0 {
		return invalid("rows is %d, dense stride %d: negative", b.Rows, b.DenseStride)
	}
	p := native.Part{Rows: int64(b.Rows), Stride: int64(b.DenseStride), Dense: b.Dense, IDs: b.IDs, Offsets: b.Offsets,
		Weights: b.Weights}
	if b.Shared != nil || on != 0 {
		return m.runParts(ctx, done, s, on, b, &p, out)
	}
	timeout, watch := int64(0), m.watches(b.Rows)
	if done != nil {
		var err error
		if timeout, err = s.begin(ctx, done, watch); err != nil {
			return err
		}
	}
	status := native.Predict(m.handle, s.call, &p, int32(b.Layout), out, timeout, done != nil)
	if done != nil {
		s.end(done, watch)
	}
	runtime.KeepAlive(b)
	if status != 0 {
		return s.failed(ctx)
	}
	return nil
}

// runParts is run for a batch with a shared part or on a context.
func (m *Model) runParts(ctx context.Context, done <-chan struct{}, s *seat, on uintptr, b *Batch, p *native.Part,
	out []float32) error {
	var shared native.Part
	sharedOffsets, err := m.checkParts(b, p, &shared)
	if err != nil {
		return err
	}
	watch := on != 0 || m.watches(b.Rows)
	timeout, err := s.begin(ctx, done, watch)
	if err != nil {
		return err
	}
	status := native.PredictBatch(m.handle, on, s.call, p, int32(b.Layout), &shared, sharedOffsets, out, timeout)
	s.end(done, watch)
	runtime.KeepAlive(b)
	if status != 0 {
		return s.failed(ctx)
	}
	return nil
}

// checkParts checks the lengths that dpi_predict cannot see, and fills the shared part.
func (m *Model) checkParts(b *Batch, p, shared *native.Part) ([]int64, error) {
	slots, dense := m.info.Slots, m.info.DenseDim
	if b.Shared == nil {
		return nil, checkPart("batch", p, slots, dense)
	}
	if err := checkPart("item", p, m.info.ItemSlots, m.info.ItemDenseDim); err != nil {
		return nil, err
	}
	s := b.Shared
	if len(s.Offsets) == 0 {
		return nil, invalid("the shared part has no offsets, expected shared rows + 1")
	}
	if s.DenseStride < 0 {
		return nil, invalid("the shared dense stride is %d: negative", s.DenseStride)
	}
	*shared = native.Part{Rows: int64(len(s.Offsets) - 1), Stride: int64(s.DenseStride), Dense: s.Dense, IDs: s.IDs,
		Offsets: s.BagOffsets, Weights: s.Weights}
	return s.Offsets, checkPart("shared", shared, m.info.SharedSlots, m.info.SharedDenseDim)
}

func checkPart(name string, p *native.Part, slots, columns int) error {
	if p.Rows > 1<<31 || p.Stride > 1<<24 {
		return invalid("%s part: %d rows with stride %d is out of range", name, p.Rows, p.Stride)
	}
	bags := int(p.Rows) * slots
	if p.Offsets == nil && len(p.IDs) != bags {
		return invalid("%s part: %d ids, expected rows x slots = %d", name, len(p.IDs), bags)
	}
	if p.Offsets != nil && len(p.Offsets) != bags+1 {
		return invalid("%s part: %d offsets, expected rows x slots + 1 = %d", name, len(p.Offsets), bags+1)
	}
	if p.Weights != nil && len(p.Weights) != len(p.IDs) {
		return invalid("%s part: %d weights, expected one per id = %d", name, len(p.Weights), len(p.IDs))
	}
	stride := int(p.Stride)
	if stride == 0 {
		stride = columns
	}
	if need := (int(p.Rows)-1)*stride + columns; p.Rows > 0 && columns > 0 && len(p.Dense) < need {
		return invalid("%s part: %d dense floats, expected at least %d", name, len(p.Dense), need)
	}
	return nil
}
