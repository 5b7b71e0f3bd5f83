// Package dpi scores click-through-rate models inside a Go service: it loads a bundle and turns rows of ids and floats,
// or raw values by feature name, into scores. It stands on the C library libdpi.so.1 (found by pkg-config: dpi).
//
//	model, err := dpi.Load("ctr.h5", dpi.WithWarmUp(512))
//	if err != nil { ... }
//	defer model.Close()
//	batch := &dpi.Batch{Rows: 2, IDs: ids, Dense: dense}
//	scores := make([]float32, batch.Rows*model.Info().Heads)
//	err = model.Predict(ctx, batch, scores)
//
// # Goroutines
//
// A Model may be used from any number of goroutines. At most WithConcurrency of them (default GOMAXPROCS) are inside the
// library at a time; the others wait as goroutines. A Batch may be predicted by several, a Context and Rows belong to one
// goroutine at a time.
//
// # Memory
//
// Slices are handed to the library without copying and not kept. Predict allocates nothing in steady state, also not with
// a context that can be cancelled. NewBatch and NewContext give memory outside Go's heap for batches that are filled
// again and again.
//
// # Small requests
//
// A Batcher (Model.NewBatcher, Endpoint.NewBatcher) scores concurrent small requests in one chunk. Submit returns a channel instead of
// waiting; what the library writes meanwhile is memory outside Go's heap.
//
// # Errors
//
// Every error is an *Error with code, row, feature and text for errors.As; each code is a sentinel for errors.Is
// (ErrTimeout, ErrNotFound, ...). A passed deadline also matches context.DeadlineExceeded, a cancellation
// context.Canceled.
//
// # Closing
//
// Model, Batch (of NewBatch), Context and Rows have an idempotent Close, which waits for running calls. Finalizers close
// what was forgotten.
package dpi
