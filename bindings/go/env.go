package dpi

import (
	"runtime"
	"strconv"
	"strings"
	"sync"

	"dpiframe.org/dpi/internal/native"
)

// LogLevel is the level of a message of the library.
type LogLevel int32

// Levels of messages.
const (
	LogDebug LogLevel = iota
	LogInfo
	LogWarn
	LogError
	LogOff // no message has it: SetLogLevel(LogOff) silences the library
)

// Env is what models share: worker threads, and where the library's messages go. A model keeps the environment it was
// loaded in, also past Close. All methods may be called from any number of goroutines at once.
type Env struct {
	mu     sync.RWMutex
	handle uintptr // 0: the process's, or closed
	closed bool
}

var processEnv Env

// DefaultEnv is the environment of models loaded without WithEnv. Close leaves it as it is.
func DefaultEnv() *Env { return &processEnv }

// NewEnv makes one with threads and messages of its own.
func NewEnv() (*Env, error) {
	if err := CheckVersion(); err != nil {
		return nil, err
	}
	e := &Env{}
	err := inCall(func(c native.Call) int32 { return native.Dpi_env_create(&e.handle, c.Error()) })
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(e, func(e *Env) { _ = e.Close() })
	return e, nil
}

// inCall makes one call with a dpi_error.
func inCall(call func(c native.Call) int32) error {
	c, ok := native.NewCall()
	if !ok {
		return plainError(OutOfMemory, "no memory for a call's state")
	}
	defer c.Free()
	if call(c) != 0 {
		return failure(c.Failure())
	}
	return nil
}

func (e *Env) with(body func(handle uintptr) error) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return closedError("environment")
	}
	return body(e.handle)
}

// Set sets a key that dpi.h lists under dpi_env_set: threads, spin_us.
func (e *Env) Set(key, value string) error {
	if strings.IndexByte(key, 0) >= 0 || strings.IndexByte(value, 0) >= 0 {
		return invalid("key %q of an environment holds a NUL byte", key)
	}
	return e.with(func(handle uintptr) error {
		return inCall(func(c native.Call) int32 {
			return native.Dpi_env_set(handle, native.CString(key), native.CString(value), c.Error())
		})
	})
}

// SetThreads bounds the threads that one call may use; 0 = what its model asks for. To be set before models are loaded.
func (e *Env) SetThreads(most int) error { return e.Set("threads", strconv.Itoa(most)) }

// SetLogLevel sets the least level of messages that are kept, at first LogWarn.
func (e *Env) SetLogLevel(least LogLevel) error {
	return e.with(func(handle uintptr) error {
		return inCall(func(c native.Call) int32 { return native.Dpi_env_set_log(handle, 0, 0, int32(least), c.Error()) })
	})
}

// PollLog takes the oldest of the last 256 messages, "component: text"; ok is false when there is none.
func (e *Env) PollLog() (level LogLevel, text string, ok bool) {
	buf := make([]byte, 4096) // no text of the library is longer
	_ = e.with(func(handle uintptr) error {
		var l int32
		n := native.Dpi_env_poll_log(handle, &buf[0], uint64(len(buf)), &l)
		if n > 0 && n <= uint64(len(buf)) {
			level, text, ok = LogLevel(l), string(buf[:n-1]), true
		}
		return nil
	})
	return level, text, ok
}

// MetricsFormat says how Env.Metrics writes; flags are joined by |.
type MetricsFormat uint32

// Formats. Zero is Prometheus' text format 0.0.4 with 4 bounds to an octave.
const (
	MetricsOpenMetrics MetricsFormat = 1 // OpenMetrics 1.0, Content-Type application/openmetrics-text; version=1.0.0; charset=utf-8
	MetricsFine        MetricsFormat = 2 // every bound of the histograms, 16 to an octave
)

// Metrics has counters, latencies and sizes of all models and endpoints of the environment, for a monitoring system: what a service writes
// behind its own at /metrics. metrics.h lists the families.
func (e *Env) Metrics(format MetricsFormat) (text string, err error) {
	err = e.with(func(handle uintptr) error {
		text = native.Text(func(buf *byte, capacity uint64) uint64 {
			return native.Dpi_metrics(handle, uint32(format), buf, capacity)
		})
		if text == "" && format&^(MetricsOpenMetrics|MetricsFine) != 0 {
			return invalid("metrics: format %d has an unknown flag", format)
		}
		return nil
	})
	return text, err
}

// Close drops this handle; models loaded in the environment keep it until they are closed. Closing again does nothing.
func (e *Env) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handle != 0 {
		runtime.SetFinalizer(e, nil)
		native.Dpi_env_free(e.handle)
		e.handle, e.closed = 0, true
	}
	return nil
}
