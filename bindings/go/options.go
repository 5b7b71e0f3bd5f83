package dpi

import (
	"context"
	"runtime"
	"strconv"
	"strings"

	"dpiframe.org/dpi/internal/native"
)

type setting struct{ key, value string }

type config struct {
	settings    []setting
	concurrency int
	warmUpRows  int
	env         *Env
	ctx         context.Context
}

func newConfig(options []Option) (*config, error) {
	if err := CheckVersion(); err != nil {
		return nil, err
	}
	c := &config{concurrency: runtime.GOMAXPROCS(0)}
	for _, option := range options {
		option(c)
	}
	if c.concurrency < 1 || c.concurrency > 1<<16 {
		return nil, invalid("concurrency is %d, expected 1 .. 65536", c.concurrency)
	}
	return c, nil
}

// waits tells whether calls may wait inside the library, because it may have fewer contexts than there are seats.
func (c *config) waits() bool {
	for _, s := range c.settings {
		if s.key == "max_contexts" {
			return true
		}
	}
	return c.concurrency > runtime.NumCPU()
}

// make returns a dpi_options, which the caller frees.
func (c *config) make(scratch native.Call) (o uintptr, err error) {
	if o = native.Dpi_options_create(); o == 0 {
		return 0, plainError(OutOfMemory, "no memory for the options")
	}
	defer func() {
		if err != nil {
			native.Dpi_options_free(o)
		}
	}()
	for _, s := range c.settings {
		if strings.IndexByte(s.key, 0) >= 0 || strings.IndexByte(s.value, 0) >= 0 {
			return o, invalid("option %q holds a NUL byte", s.key)
		}
		if native.Dpi_options_set(o, native.CString(s.key), native.CString(s.value), scratch.Error()) != 0 {
			return o, failure(scratch.Failure())
		}
	}
	if c.env == nil {
		return o, nil
	}
	return o, c.env.with(func(env uintptr) error {
		if native.Dpi_options_set_env(o, env, scratch.Error()) != 0 {
			return failure(scratch.Failure())
		}
		return nil
	})
}

// Option changes how Load prepares a model, and NewEndpoint all of its versions.
type Option func(*config)

// WithOption sets any option of the library by its key, as listed in dpi.h: WithOption("precision", "bf16").
func WithOption(key, value string) Option {
	return func(c *config) { c.settings = append(c.settings, setting{key, value}) }
}

// WithDevice chooses what computes: "cpu", "cuda" (an error when it cannot be used), "auto" (falls back to cpu and
// says why in InfoJSON), "ref", or the name of another plugin.
func WithDevice(device string) Option { return WithOption("device", device) }

// WithEnv loads the model in an environment; without it, in DefaultEnv().
func WithEnv(e *Env) Option { return func(c *config) { c.env = e } }

// WithContext makes Load stop with ErrCancelled or ErrTimeout when ctx ends.
func WithContext(ctx context.Context) Option { return func(c *config) { c.ctx = ctx } }

// WithThreads sets the threads for large batches, of the environment; 1, the default, is the caller's thread only.
func WithThreads(n int) Option { return WithOption("threads", strconv.Itoa(n)) }

// WithMaxRows sets the rows per internal chunk; larger batches run in several.
func WithMaxRows(n int) Option { return WithOption("max_rows", strconv.Itoa(n)) }

// WithConcurrency sets how many goroutines may be inside the library at once (default GOMAXPROCS); further ones wait
// as goroutines, not as OS threads.
func WithConcurrency(n int) Option { return func(c *config) { c.concurrency = n } }

// WithWarmUp runs batches of up to rows rows while loading, so that no later call pays for a first time.
func WithWarmUp(rows int) Option { return func(c *config) { c.warmUpRows = rows } }
