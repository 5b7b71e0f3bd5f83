package dpi

import (
	"context"
	"strconv"
)

type setting struct{ key, value string }

type config struct {
	settings    []setting
	concurrency int
	warmUpRows  int
	env         *Env
	ctx         context.Context
}

// Option changes how Load prepares a model.
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
