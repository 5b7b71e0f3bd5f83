package dpi

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"dpiframe.org/dpi/internal/native"
)

// seat is what one running call needs: C memory and, once a cancellable context was seen, a goroutine that watches it.
type seat struct {
	call  native.Call
	word  *gateWord
	bit   uint64
	watch chan context.Context // hands the next context to the watcher; closed when the seat goes
	stop  chan struct{}        // unbuffered: taken when the watcher is done with the context
}

func newSeat() (*seat, error) {
	s := &seat{}
	return s, s.open()
}

func (s *seat) open() error {
	c, ok := native.NewCall()
	if !ok {
		return plainError(OutOfMemory, "no memory for a call's state")
	}
	s.call = c
	return nil
}

func (s *seat) free() {
	if s.watch != nil {
		close(s.watch)
	}
	s.call.Free()
}

// follow watches contexts one after another. It knows only its seat, so a model that nobody closed can be collected.
func follow(call native.Call, watch <-chan context.Context, stop <-chan struct{}) {
	for ctx := range watch {
		select {
		case <-ctx.Done():
			call.SetCancel(1)
			<-stop
		case <-stop:
		}
	}
}

// begin returns the time that a context which can end leaves (0: no limit) and, if asked, starts watching it: a call of
// one chunk that does not wait never looks at the flag again, so it is spared the watcher. After a nil error the caller
// calls end with the same `watch`, whatever comes of the call.
func (s *seat) begin(ctx context.Context, done <-chan struct{}, watch bool) (timeout int64, err error) {
	if done == nil {
		return 0, nil
	}
	select { // Err would lock
	case <-done:
		return 0, contextError(ctx)
	default:
	}
	if deadline, ok := ctx.Deadline(); ok {
		if timeout = int64(time.Until(deadline)); timeout <= 0 {
			return 0, timeoutError("the deadline passed before the call")
		}
	}
	if !watch {
		return timeout, nil
	}
	if s.watch == nil {
		s.watch, s.stop = make(chan context.Context), make(chan struct{})
		go follow(s.call, s.watch, s.stop)
	}
	s.call.SetCancel(0)
	s.watch <- ctx
	return timeout, nil
}

func (s *seat) end(done <-chan struct{}, watch bool) {
	if done != nil && watch {
		s.stop <- struct{}{}
		s.call.SetCancel(0)
	}
}

const (
	seatsPerWord = 63
	closedBit    = uint64(1) << 63
)

type gateWord struct {
	state atomic.Uint64 // bit i: seat i is taken; closedBit
	_     [56]byte
}

// gate is semaphore and reference count in one: a call takes a seat before it enters C, so that no more OS threads are
// used than there are seats, and close waits until every seat is back. Taking and giving back is one atomic exchange each.
// The engine pushes all of this out of the first cache, so it lies together: a model holds its gate, the gate its seats.
type gate struct {
	words   []gateWord
	seats   []seat
	waiters atomic.Int32
	wake    chan struct{} // a token per seat given back while someone waits
	closed  chan struct{}
}

func newGate(n int) (*gate, error) {
	g := &gate{}
	return g, g.open(n)
}

// open makes n seats; after an error there are none.
func (g *gate) open(n int) error {
	g.words = make([]gateWord, (n+seatsPerWord-1)/seatsPerWord)
	g.seats = make([]seat, n)
	g.wake, g.closed = make(chan struct{}, n), make(chan struct{})
	for i := range g.words {
		taken := ^uint64(0) >> 1
		if left := n - i*seatsPerWord; left < seatsPerWord {
			taken = taken &^ (uint64(1)<<left - 1)
		} else {
			taken = 0
		}
		g.words[i].state.Store(taken) // seats that do not exist are taken for ever
	}
	for i := range g.seats {
		s := &g.seats[i]
		if err := s.open(); err != nil {
			g.seats = g.seats[:i]
			g.free()
			return err
		}
		s.word, s.bit = &g.words[i/seatsPerWord], uint64(1)<<(i%seatsPerWord)
	}
	return nil
}

func (g *gate) free() {
	for i := range g.seats {
		g.seats[i].free()
	}
	g.seats = nil
}

// try returns nil, false when all seats are taken and nil, true when the gate is closed.
func (g *gate) try() (s *seat, closed bool) {
	for i := range g.words {
		w := &g.words[i].state
		for {
			state := w.Load()
			if state&closedBit != 0 {
				return nil, true
			}
			free := ^state &^ closedBit
			if free == 0 {
				break
			}
			bit := free & -free
			if w.CompareAndSwap(state, state|bit) {
				return &g.seats[i*seatsPerWord+bits.TrailingZeros64(bit)], false
			}
		}
	}
	return nil, false
}

// acquire waits for a seat, the end of ctx, or the gate's closing. What follows the first attempt is a function of its own: a
// defer would cost the common case.
func (g *gate) acquire(done <-chan struct{}, ctx context.Context) (*seat, error) {
	w := &g.words[0].state
	state := w.Load()
	bit := ^state & (state + 1) // the lowest 0: a free seat, or the top bit when all are taken
	if int64(bit) > 0 && state&closedBit == 0 && w.CompareAndSwap(state, state|bit) {
		return &g.seats[bits.TrailingZeros64(bit)], nil
	}
	return g.wait(done, ctx)
}

func (g *gate) wait(done <-chan struct{}, ctx context.Context) (*seat, error) {
	s, closed := g.try()
	if s != nil {
		return s, nil
	}
	if closed {
		return nil, closedError("model")
	}
	g.waiters.Add(1)
	defer g.waiters.Add(-1)
	for {
		if s, closed = g.try(); s != nil {
			return s, nil
		} else if closed {
			return nil, closedError("model")
		}
		select {
		case <-g.wake:
		case <-g.closed:
			return nil, closedError("model")
		case <-done:
			return nil, contextError(ctx)
		}
	}
}

func (g *gate) release(s *seat) {
	s.word.state.Add(-s.bit) // the bit is set, so this clears it and no other
	if g.waiters.Load() > 0 {
		select {
		case g.wake <- struct{}{}:
		default: // as many tokens as seats are under way already
		}
	}
}

// close refuses new calls and waits for the running ones. Called once.
func (g *gate) close() {
	for i := range g.words {
		w := &g.words[i].state
		for state := w.Load(); !w.CompareAndSwap(state, state|closedBit); state = w.Load() {
		}
	}
	close(g.closed)
	g.waiters.Add(1)
	for !g.idle() {
		<-g.wake
	}
	g.free()
}

func (g *gate) idle() bool {
	for i := range g.seats {
		if s := &g.seats[i]; s.word.state.Load()&s.bit != 0 {
			return false
		}
	}
	return true
}
