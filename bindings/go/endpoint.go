package dpi

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dpiframe.org/dpi/internal/native"
)

// Endpoint is a named place that always answers with its current version: Load builds the next one beside it and switches when it has
// passed every check, while Predict goes on. All methods may be called from any number of goroutines at once.
type Endpoint struct {
	handle uintptr
	gate   gate
	config config
	shape  atomic.Pointer[Model] // what its versions have in common, and no handle; nil until there is one

	mu       sync.RWMutex // held for reading by all but Predict, which goes through the gate
	closed   bool
	batchers atomic.Int32 // the last one frees the endpoint if that was closed before
	once     sync.Once
}

// NewEndpoint makes an endpoint without a version. The options are those of all its models; WithWarmUp sets "warm_up_rows", and WithContext is
// not used. An environment has one endpoint of a name.
func NewEndpoint(name string, options ...Option) (*Endpoint, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return nil, invalid("the endpoint's name holds a NUL byte")
	}
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{config: *c}
	if err := e.gate.open(c.concurrency); err != nil {
		return nil, err
	}
	if err := e.open(name); err != nil {
		e.gate.free()
		return nil, err
	}
	runtime.SetFinalizer(e, func(e *Endpoint) { _ = e.Close() })
	if c.warmUpRows > 0 {
		if err := e.Set("warm_up_rows", strconv.Itoa(c.warmUpRows)); err != nil {
			_ = e.Close()
			return nil, err
		}
	}
	return e, nil
}

func (e *Endpoint) open(name string) error {
	scratch := e.gate.seats[0].call // nobody else has the gate yet
	o, err := e.config.make(scratch)
	if err != nil {
		return err
	}
	defer native.Dpi_options_free(o)
	var handle uintptr // C may not be handed a place inside what holds Go pointers
	if native.Dpi_endpoint_create(native.CString(name), o, &handle, scratch.Error()) != 0 {
		return failure(scratch.Failure())
	}
	e.handle = handle
	return nil
}

// with runs body while the endpoint cannot be freed.
func (e *Endpoint) with(body func() error) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return closedError("endpoint")
	}
	return body()
}

func (e *Endpoint) call(call func(c native.Call) int32) error {
	return e.with(func() error { return inCall(call) })
}

// Set sets a key that endpoint.h lists under dpi_endpoint_set: keep_seconds, golden, warm_up_rows, follow_ms, back_off_ms,
// update.bytes_per_second, update.spare_rows, record.path, record.share, record.bytes, record.bytes_per_second.
func (e *Endpoint) Set(key, value string) error {
	if strings.IndexByte(key, 0) >= 0 || strings.IndexByte(value, 0) >= 0 {
		return invalid("key %q of an endpoint holds a NUL byte", key)
	}
	return e.call(func(c native.Call) int32 {
		return native.Dpi_endpoint_set(e.handle, native.CString(key), native.CString(value), c.Error())
	})
}

// Load loads a bundle beside the version that serves and switches to it. What fails leaves everything as it was. number: what the version
// is called, 0 = one more than any that served.
func (e *Endpoint) Load(path string, number uint64) error {
	if strings.IndexByte(path, 0) >= 0 {
		return invalid("the path holds a NUL byte")
	}
	return e.call(func(c native.Call) int32 {
		return native.Dpi_endpoint_load(e.handle, native.CString(path), number, c.Error())
	})
}

// Rollback makes the version before the current one serve again; ErrNotFound when none is kept.
func (e *Endpoint) Rollback() error {
	return e.call(func(c native.Call) int32 { return native.Dpi_endpoint_rollback(e.handle, c.Error()) })
}

// Follow loads the newest v<number>.h5 of a folder from now on, soon after it comes there by rename.
func (e *Endpoint) Follow(folder string) error {
	if strings.IndexByte(folder, 0) >= 0 {
		return invalid("the folder's name holds a NUL byte")
	}
	return e.call(func(c native.Call) int32 {
		return native.Dpi_endpoint_follow(e.handle, native.CString(folder), c.Error())
	})
}

// Unfollow ends that; a load that runs is finished.
func (e *Endpoint) Unfollow() error {
	return e.with(func() error { native.Dpi_endpoint_unfollow(e.handle); return nil })
}

// Subscribe follows a folder and brings deltas there from a stream, kafka://host:port/topic; package libdpi1-kafka. The C header says the
// rest under dpi_endpoint_subscribe.
func (e *Endpoint) Subscribe(source, folder string) error {
	if strings.IndexByte(source, 0) >= 0 || strings.IndexByte(folder, 0) >= 0 {
		return invalid("the source or the folder's name holds a NUL byte")
	}
	return e.call(func(c native.Call) int32 {
		return native.Dpi_endpoint_subscribe(e.handle, native.CString(source), native.CString(folder), c.Error())
	})
}

// Unsubscribe ends that; the folder is followed on.
func (e *Endpoint) Unsubscribe() error {
	return e.with(func() error { native.Dpi_endpoint_unsubscribe(e.handle); return nil })
}

// Version is the number of the current version, 0 = none.
func (e *Endpoint) Version() (number uint64) {
	_ = e.with(func() error { number = native.Dpi_endpoint_version(e.handle); return nil })
	return number
}

// Wait returns when a version of this number or a higher one serves, or with ctx's error.
func (e *Endpoint) Wait(ctx context.Context, number uint64) error {
	for {
		select {
		case <-ctx.Done():
			return contextError(ctx)
		default:
		}
		slice := 20 * time.Millisecond // so that ctx is looked at, and Close does not wait for long
		err := e.call(func(c native.Call) int32 {
			return native.Dpi_endpoint_wait(e.handle, number, native.Deadline(int64(slice)), c.Error())
		})
		if !errors.Is(err, ErrTimeout) {
			return err
		}
	}
}

// Acquire is the current version as a Model, which works until it is closed, whatever the endpoint loads: for what belongs to one version, such as
// NewRows, NewContext and the schema. Info.Version is its number.
func (e *Endpoint) Acquire() (*Model, error) {
	m := &Model{waits: e.config.waits()}
	if err := m.gate.open(e.config.concurrency); err != nil {
		return nil, err
	}
	var handle uintptr
	err := e.call(func(c native.Call) int32 { return native.Dpi_endpoint_acquire(e.handle, &handle, c.Error()) })
	if m.handle = handle; err == nil {
		err = m.describe(m.gate.seats[0].call)
	}
	if err != nil {
		if m.handle != 0 {
			native.Dpi_model_free(m.handle)
		}
		m.gate.free()
		return nil, err
	}
	runtime.SetFinalizer(m, func(m *Model) { _ = m.Close() })
	return m, nil
}

// known is the shape of the endpoint's versions, from the first one.
func (e *Endpoint) known() (*Model, error) {
	if shape := e.shape.Load(); shape != nil {
		return shape, nil
	}
	m, err := e.Acquire()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	shape := &Model{info: m.info, waits: m.waits}
	e.shape.Store(shape)
	return shape, nil
}

// Predict is Model.Predict on the version that is current when the call begins.
func (e *Endpoint) Predict(ctx context.Context, b *Batch, out []float32) error {
	_, err := e.PredictVersion(ctx, b, out)
	return err
}

// PredictVersion is Predict, and tells which version scored all rows. ErrNotFound as long as there is none.
func (e *Endpoint) PredictVersion(ctx context.Context, b *Batch, out []float32) (uint64, error) {
	if b == nil || b.Rows < 0 || b.DenseStride < 0 {
		return 0, invalid("the batch is nil, or its rows or dense stride are negative")
	}
	shape, err := e.known()
	if err != nil {
		return 0, err
	}
	done := ctx.Done()
	s, err := e.gate.acquire(done, ctx)
	if err != nil {
		return 0, err
	}
	err = e.run(ctx, done, s, shape, b, out)
	version := s.call.Version()
	e.gate.release(s)
	runtime.KeepAlive(e)
	if err != nil {
		return 0, err
	}
	return version, nil
}

func (e *Endpoint) run(ctx context.Context, done <-chan struct{}, s *seat, shape *Model, b *Batch, out []float32) error {
	p := native.Part{Rows: int64(b.Rows), Stride: int64(b.DenseStride), Dense: b.Dense, IDs: b.IDs, Offsets: b.Offsets,
		Weights: b.Weights}
	var shared native.Part
	sharedOffsets, err := shape.checkParts(b, &p, &shared)
	if err != nil {
		return err
	}
	watch := shape.watches(b.Rows)
	timeout, err := s.begin(ctx, done, watch)
	if err != nil {
		return err
	}
	status := native.EndpointPredict(e.handle, s.call, &p, int32(b.Layout), &shared, sharedOffsets, out, timeout)
	s.end(done, watch)
	runtime.KeepAlive(b)
	if status != 0 {
		return s.failed(ctx)
	}
	return nil
}

// StatusJSON has the endpoint's versions, what was loaded and refused, and the folder that it follows, as endpoint.h says.
func (e *Endpoint) StatusJSON() (text string, err error) {
	err = e.with(func() error {
		text = native.Text(func(buf *byte, capacity uint64) uint64 {
			return native.Dpi_endpoint_status_json(e.handle, buf, capacity)
		})
		return nil
	})
	return text, err
}

// SlowJSON is Model.SlowJSON over all versions.
func (e *Endpoint) SlowJSON() (text string, err error) {
	err = e.with(func() error {
		text = native.Text(func(buf *byte, capacity uint64) uint64 { return native.Dpi_endpoint_slow_json(e.handle, buf, capacity) })
		return nil
	})
	return text, err
}

// EndpointFile is a file that an endpoint was to load, and what became of it: Code and Error are OK and "" where it served.
type EndpointFile struct {
	Path    string `json:"path"`
	Version uint64 `json:"version"`
	Code    Code   `json:"code"`
	Error   string `json:"error"`
}

// EndpointStatus is the part of StatusJSON that services report.
type EndpointStatus struct {
	Name        string         `json:"name"`
	Version     uint64         `json:"version"`
	Digest      string         `json:"digest"`
	SinceMs     int64          `json:"since_ms"`
	Loads       int64          `json:"loads"`
	FailedLoads int64          `json:"failed_loads"`
	Failures    map[Code]int64 `json:"failures"` // FailedLoads by code
	Rollbacks   int64          `json:"rollbacks"`
	LastLoad    EndpointFile   `json:"last_load"`
	Memory      struct {       // of all versions together
		HeldHostBytes   uint64 `json:"held_host_bytes"`
		HeldDeviceBytes uint64 `json:"held_device_bytes"`
		ForecastBytes   uint64 `json:"forecast_bytes"`
	} `json:"memory"`
	Follows struct {
		Folder  string         `json:"folder"`
		Code    Code           `json:"code"` // of the last look into the folder
		Error   string         `json:"error"`
		Refused []EndpointFile `json:"refused"` // files of the folder that do not serve, deltas that nothing leads to among them
	} `json:"follows"`
}

// Status reads StatusJSON.
func (e *Endpoint) Status() (s EndpointStatus, err error) {
	text, err := e.StatusJSON()
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, plainError(Internal, "status: %v", err)
	}
	return s, nil
}

// Close waits for running calls, a load among them, and frees the endpoint; acquired models stay, and its batchers work on, which keep its memory.
// Later calls fail with ErrClosed. Closing again does nothing.
func (e *Endpoint) Close() error {
	e.once.Do(func() {
		runtime.SetFinalizer(e, nil)
		e.gate.close()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.closed = true
		if e.batchers.Load() == 0 {
			native.Dpi_endpoint_free(e.handle)
		}
	})
	return nil
}

// give ends the use of the endpoint by a batcher.
func (e *Endpoint) give() {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.batchers.Add(-1) == 0 && e.closed {
		native.Dpi_endpoint_free(e.handle)
	}
}
