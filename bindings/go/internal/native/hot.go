// Package native is the C API as Go sees it: native.go and dpi_wrap.c, generated from bindings/dpi.i, and this file with
// the calls of the hot path (hot.h says why they are written by hand). Only package dpi uses it.
package native

/*
#cgo pkg-config: dpi
#cgo CFLAGS: -fno-strict-aliasing
#include "hot.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// HeaderVersion is the version of the dpi.h that this package was compiled against.
const HeaderVersion = uint32(C.DPI_VERSION_NUMBER)

// Call is the C memory of one running call: its error, its run options and its cancel flag.
type Call struct{ c *C.dpi_go_call }

// NewCall allocates it; ok is false when memory is out.
func NewCall() (Call, bool) {
	c := Call{C.dpi_go_call_new()}
	return c, c.c != nil
}

// Free gives the memory back.
func (c Call) Free() { C.free(unsafe.Pointer(c.c)) }

func (c Call) address() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(c.c))) }

// Error is the address of the dpi_error, for the generated functions.
func (c Call) Error() uintptr { return uintptr(unsafe.Pointer(&c.c.error)) }

// Run sets the deadline and returns the address of the dpi_run_options, for the generated functions.
func (c Call) Run(timeoutNs int64) uintptr {
	C.dpi_go_prepare(c.address(), C.int64_t(timeoutNs))
	return uintptr(unsafe.Pointer(&c.c.run))
}

// Deadline is the moment so many nanoseconds from now, as the library counts them.
func Deadline(timeoutNs int64) uint64 { return uint64(C.dpi_go_deadline(C.int64_t(timeoutNs))) }

// SetCancel raises or lowers the flag that the running call reads.
func (c Call) SetCancel(v int32) { atomic.StoreInt32((*int32)(unsafe.Pointer(&c.c.cancel)), v) }

// CancelAddress is the address of that flag, for dpi_options_set_progress.
func (c Call) CancelAddress() uintptr { return uintptr(unsafe.Pointer(&c.c.cancel)) }

// Version is what scored the last call with run options (not Predict and PredictNow).
func (c Call) Version() uint64 { return uint64(c.c.version) }

// Failure is a dpi_error in Go's types.
type Failure struct {
	Code, NativeCode int32
	Row, Feature     int64
	InShared         bool
	Message          string
}

// Failure reads the error of the last call.
func (c Call) Failure() Failure { return failureOf(&c.c.error) }

func failureOf(e *C.dpi_error) Failure {
	return Failure{int32(e.code), int32(e.native_code), int64(e.row), int64(e.feature), e.in_shared != 0,
		C.GoString(&e.message[0])}
}

// Part is the item or the shared part of a batch.
type Part struct {
	Rows, Stride int64
	Dense        []float32
	IDs, Offsets []int64
	Weights      []float32
}

func floats(s []float32) *C.float {
	if len(s) == 0 {
		return nil
	}
	return (*C.float)(unsafe.Pointer(&s[0]))
}

func ints(s []int64) *C.int64_t {
	if len(s) == 0 {
		return nil
	}
	return (*C.int64_t)(unsafe.Pointer(&s[0]))
}

// Predict scores a batch without shared part through the model's pool.
func Predict(model uintptr, c Call, p *Part, layout int32, out []float32, timeoutNs int64, cancellable bool) int32 {
	watched := C.int32_t(0)
	if cancellable {
		watched = 1
	}
	return int32(C.dpi_go_predict(C.uintptr_t(model), c.address(), C.int64_t(p.Rows), floats(p.Dense),
		C.int64_t(len(p.Dense)), C.int64_t(p.Stride), ints(p.IDs), C.int64_t(len(p.IDs)), ints(p.Offsets),
		C.int64_t(len(p.Offsets)), floats(p.Weights), C.int64_t(len(p.Weights)), C.int32_t(layout), floats(out),
		C.int64_t(len(out)), C.int64_t(timeoutNs), watched))
}

// PredictNow is Predict without a deadline and a cancel flag. Taking the batch apart into parameters saves storing a Part,
// 4 to 12 ns a call.
func PredictNow(model uintptr, c Call, rows, stride int, dense []float32, ids, offsets []int64, weights []float32,
	layout int32, out []float32) int32 {
	return int32(C.dpi_go_predict(C.uintptr_t(model), c.address(), C.int64_t(rows), floats(dense), C.int64_t(len(dense)),
		C.int64_t(stride), ints(ids), C.int64_t(len(ids)), ints(offsets), C.int64_t(len(offsets)), floats(weights),
		C.int64_t(len(weights)), C.int32_t(layout), floats(out), C.int64_t(len(out)), 0, 0))
}

// PredictBatch scores a batch with a shared part (shared.Offsets are the bag offsets, sharedOffsets the rows), or any
// batch on a context. The caller has checked every length.
func PredictBatch(model, context uintptr, c Call, p *Part, layout int32, shared *Part, sharedOffsets []int64,
	out []float32, timeoutNs int64) int32 {
	return predictBatch(model, context, 0, c, p, layout, shared, sharedOffsets, out, timeoutNs)
}

// EndpointPredict scores any batch on the current version of an endpoint. The caller has checked every length.
func EndpointPredict(endpoint uintptr, c Call, p *Part, layout int32, shared *Part, sharedOffsets []int64, out []float32,
	timeoutNs int64) int32 {
	return predictBatch(0, 0, endpoint, c, p, layout, shared, sharedOffsets, out, timeoutNs)
}

func predictBatch(model, context, endpoint uintptr, c Call, p *Part, layout int32, shared *Part, sharedOffsets []int64,
	out []float32, timeoutNs int64) int32 {
	return int32(C.dpi_go_predict_batch(C.uintptr_t(model), C.uintptr_t(context), C.uintptr_t(endpoint), c.address(),
		C.int64_t(p.Rows), floats(p.Dense), C.int64_t(p.Stride), ints(p.IDs), C.int64_t(len(p.IDs)), ints(p.Offsets),
		floats(p.Weights), C.int32_t(layout), C.int64_t(shared.Rows), ints(sharedOffsets), floats(shared.Dense),
		C.int64_t(shared.Stride), ints(shared.IDs), C.int64_t(len(shared.IDs)), ints(shared.Offsets),
		floats(shared.Weights), floats(out), C.int64_t(len(out)), C.int64_t(timeoutNs)))
}

// ContextPredict scores the first rows of a context's own memory.
func ContextPredict(context uintptr, c Call, rows, nnz int64, weights bool, timeoutNs int64) int32 {
	use := C.int32_t(0)
	if weights {
		use = 1
	}
	return int32(C.dpi_go_context_predict(C.uintptr_t(context), c.address(), C.int64_t(rows), C.int64_t(nnz), use,
		C.int64_t(timeoutNs)))
}
