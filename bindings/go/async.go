package dpi

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"dpiframe.org/dpi/internal/native"
)

// Completion tells how a submitted request ended.
type Completion struct {
	Err     error         // nil: the scores are in the slice that Submit was given
	Version uint64        // of the model that scored all rows
	Queued  time.Duration // from Submit until its chunk ran
	Run     time.Duration // of the chunk
}

// job is one submitted request until its completion.
type job struct {
	memory native.Job
	holds  int32 // on the memory: the submit's, until it returned, and the completion's; the last frees it
	ticket uint64
	ctx    context.Context
	out    []float32
	told   chan Completion // of one place, so that telling never waits
	ended  chan struct{}   // closed then
}

func (one *job) release() {
	if atomic.AddInt32(&one.holds, -1) == 0 {
		one.memory.Free()
	}
}

// jobs are those under way, by the address of their memory, and the goroutine that takes completions while there are any. An object of its
// own: what points to itself, as the condition does, has no finalizer.
type jobs struct {
	mu      sync.Mutex
	waiting map[uint64]*job
	polling bool
	empty   *sync.Cond
}

func newJobs() *jobs {
	j := &jobs{waiting: map[uint64]*job{}}
	j.empty = sync.NewCond(&j.mu)
	return j
}

// add registers a job before it is submitted: its completion may come before the submit returns.
func (j *jobs) add(one *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting[one.memory.Key()] = one
}

func (j *jobs) take(key uint64) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	one := j.waiting[key]
	delete(j.waiting, key)
	return one
}

// drained returns when every completion was handed on.
func (j *jobs) drained() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.polling || len(j.waiting) > 0 {
		j.empty.Wait()
	}
}

// Submit leaves a batch with the batcher and returns. The channel receives one Completion, whatever happens; nobody has to receive it. The
// batch may change at once; out is written before a completion without error, and is the caller's again with any completion. ctx's deadline
// and cancellation end a request that waits: ErrTimeout, ErrCancelled. An error of Submit itself means that there is no completion.
func (b *Batcher) Submit(ctx context.Context, batch *Batch, out []float32) (<-chan Completion, error) {
	p, err := b.parts(batch)
	if err != nil {
		return nil, err
	}
	told, err := b.submit(ctx, out, func(j native.Job, timeout int64) int32 {
		return native.BatcherSubmit(b.handle, j, &p.item, p.layout, &p.shared, p.sharedOffsets, timeout)
	})
	runtime.KeepAlive(batch)
	return told, err
}

// SubmitRows is Submit for raw rows, which may be cleared and filled again at once.
func (b *Batcher) SubmitRows(ctx context.Context, r *Rows, out []float32) (<-chan Completion, error) {
	if r == nil {
		return nil, invalid("the rows are nil")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == 0 {
		return nil, closedError("row batch")
	}
	return b.submit(ctx, out, func(j native.Job, timeout int64) int32 {
		return native.BatcherRowsSubmit(b.handle, r.handle, j, timeout)
	})
}

func (b *Batcher) submit(ctx context.Context, out []float32, call func(j native.Job, timeout int64) int32) (<-chan Completion, error) {
	timeout, err := timeLeft(ctx)
	if err != nil {
		return nil, err
	}
	memory, ok := native.NewJob(len(out))
	if !ok {
		return nil, plainError(OutOfMemory, "no memory for %d scores", len(out))
	}
	one := &job{memory: memory, holds: 2, ctx: ctx, out: out, told: make(chan Completion, 1), ended: make(chan struct{})}
	err = b.with(func() error {
		b.jobs.add(one)
		if status := call(memory, timeout); status != 0 {
			b.jobs.take(memory.Key())
			return failure(memory.Call().Failure())
		}
		return nil
	})
	if err != nil { // there will be no completion
		memory.Free()
		return nil, err
	}
	one.ticket = memory.Ticket()
	one.release()
	b.jobs.mu.Lock()
	defer b.jobs.mu.Unlock()
	if _, waits := b.jobs.waiting[memory.Key()]; waits {
		if ctx.Done() != nil {
			go b.watch(one)
		}
		if !b.jobs.polling {
			b.jobs.polling = true
			go b.poll()
		}
	}
	return one.told, nil
}

// watch cancels one job when its context ends first. The batcher is there as long as the job waits.
func (b *Batcher) watch(one *job) {
	select {
	case <-one.ended:
	case <-one.ctx.Done():
		b.jobs.mu.Lock()
		defer b.jobs.mu.Unlock()
		if b.jobs.waiting[one.memory.Key()] == one {
			native.Dpi_batcher_cancel(b.handle, one.ticket, 0) // its completion comes in any case
		}
	}
}

// pollNs bounds one wait for completions, which nothing else ends.
const pollUs = 100000

// poll hands completions on as long as any job waits.
func (b *Batcher) poll() {
	for {
		n := b.completions.Poll(b.handle, pollUs)
		for i := 0; i < n; i++ {
			b.finish(b.completions.At(i))
		}
		b.jobs.mu.Lock()
		if len(b.jobs.waiting) == 0 {
			b.jobs.polling = false
			b.jobs.empty.Broadcast()
			b.jobs.mu.Unlock()
			return
		}
		b.jobs.mu.Unlock()
	}
}

func (b *Batcher) finish(c native.Completion) {
	one := b.jobs.take(c.Key)
	told := Completion{Version: c.Version, Queued: time.Duration(c.QueuedNs), Run: time.Duration(c.RunNs)}
	if c.Status == 0 {
		copy(one.out, one.memory.Scores())
	} else {
		told.Err = ended(one.ctx, failure(c.Failure))
	}
	one.release()
	close(one.ended)
	one.told <- told
}

// timeLeft is what ctx leaves, 0 for no limit.
func timeLeft(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, contextError(ctx)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, nil
	}
	left := int64(time.Until(deadline))
	if left <= 0 {
		return 0, timeoutError("the deadline passed before the call")
	}
	return left, nil
}
