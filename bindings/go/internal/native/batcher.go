package native

/*
#include "batcher.h"
*/
import "C"

import "unsafe"

// Job is the C memory that the library keeps from a submit to its completion.
type Job struct{ j *C.dpi_go_job }

// NewJob allocates it with room for so many scores; ok is false when memory is out.
func NewJob(scores int) (Job, bool) {
	j := Job{C.dpi_go_job_new(C.uint64_t(scores))}
	return j, j.j != nil
}

// Free gives the memory back: after the completion, or after a submit that failed.
func (j Job) Free() { C.free(unsafe.Pointer(j.j)) }

// Call is the job's error, run options and version.
func (j Job) Call() Call { return Call{&j.j.call} }

// Key is what the completion names the job by.
func (j Job) Key() uint64 { return uint64(uintptr(unsafe.Pointer(j.j))) }

// Ticket is what dpi_batcher_cancel takes.
func (j Job) Ticket() uint64 { return uint64(j.j.ticket) }

// Scores is where the library writes them.
func (j Job) Scores() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(uintptr(unsafe.Pointer(j.j))+unsafe.Sizeof(*j.j))), int(j.j.out_len))
}

// Completion is a dpi_completion.
type Completion struct {
	Key, Version    uint64
	QueuedNs, RunNs uint64
	Status          int32
	Failure         Failure
}

// Completions is the C memory that one poller fills again and again.
type Completions struct{ p *C.dpi_completion }

// NewCompletions allocates it; ok is false when memory is out.
func NewCompletions() (Completions, bool) {
	c := Completions{(*C.dpi_completion)(C.calloc(C.DPI_GO_COMPLETIONS, C.sizeof_dpi_completion))}
	return c, c.p != nil
}

// Free gives it back.
func (c Completions) Free() { C.free(unsafe.Pointer(c.p)) }

// Poll waits so many microseconds at most and returns how many completions came.
func (c Completions) Poll(batcher uintptr, timeoutUs int64) int {
	return int(C.dpi_go_batcher_poll(C.uintptr_t(batcher), c.p, C.int64_t(timeoutUs)))
}

// At is one of them.
func (c Completions) At(i int) Completion {
	p := (*C.dpi_completion)(unsafe.Add(unsafe.Pointer(c.p), i*C.sizeof_dpi_completion))
	return Completion{uint64(p.user), uint64(p.version), uint64(p.queued_ns), uint64(p.run_ns), int32(p.status), failureOf(&p.error)}
}

// BatcherPredict scores any batch in a chunk with others. The caller has checked every length.
func BatcherPredict(batcher uintptr, c Call, p *Part, layout int32, shared *Part, sharedOffsets []int64, out []float32,
	timeoutNs int64) int32 {
	return batcherBatch(batcher, 0, c.address(), p, layout, shared, sharedOffsets, out, timeoutNs)
}

// BatcherSubmit leaves any batch with the batcher, whose completion names the job.
func BatcherSubmit(batcher uintptr, j Job, p *Part, layout int32, shared *Part, sharedOffsets []int64, timeoutNs int64) int32 {
	return batcherBatch(batcher, C.uintptr_t(j.Key()), 0, p, layout, shared, sharedOffsets, nil, timeoutNs)
}

func batcherBatch(batcher uintptr, job, call C.uintptr_t, p *Part, layout int32, shared *Part, sharedOffsets []int64, out []float32,
	timeoutNs int64) int32 {
	return int32(C.dpi_go_batcher_batch(C.uintptr_t(batcher), job, call, C.int64_t(p.Rows), floats(p.Dense), C.int64_t(p.Stride),
		ints(p.IDs), C.int64_t(len(p.IDs)), ints(p.Offsets), floats(p.Weights), C.int32_t(layout), C.int64_t(shared.Rows),
		ints(sharedOffsets), floats(shared.Dense), C.int64_t(shared.Stride), ints(shared.IDs), C.int64_t(len(shared.IDs)),
		ints(shared.Offsets), floats(shared.Weights), floats(out), C.int64_t(len(out)), C.int64_t(timeoutNs)))
}

// BatcherRowsSubmit leaves raw rows with the batcher.
func BatcherRowsSubmit(batcher, rows uintptr, j Job, timeoutNs int64) int32 {
	return int32(C.dpi_go_batcher_rows_submit(C.uintptr_t(batcher), C.uintptr_t(rows), C.uintptr_t(j.Key()), C.int64_t(timeoutNs)))
}
