package dpi

import (
	"context"
	"fmt"

	"dpiframe.org/dpi/internal/native"
)

// Code is a status of the library. Every code is an error value itself, the sentinel for errors.Is:
//
//	if errors.Is(err, dpi.ErrTimeout) { ... }
type Code int32

// The codes, numbered as in dpi.h.
const (
	OK              Code = 0
	InvalidArgument Code = 1  // the caller's input; see Error.Row and Error.Feature
	NotFound        Code = 2  // no such file, feature or option
	IO              Code = 3  // a file cannot be read (Error.NativeCode is errno), or a store fails or lost rows
	BadModel        Code = 4  // not a bundle, damaged, or inconsistent
	Unsupported     Code = 5  // a newer format, or something that this build lacks
	OutOfMemory     Code = 6  // host or device
	Device          Code = 7  // the device failed; Error.NativeCode is its error
	NoDevice        Code = 8  // the device asked for cannot be used; the text says why
	Timeout         Code = 9  // the context's deadline passed
	Cancelled       Code = 10 // the context was cancelled
	QueueFull       Code = 11 // too many reads of the host tier (options store.*) or requests of a batcher (batch.queue) wait: try again
	Closed          Code = 12 // used after Close
	Forked          Code = 13 // the model belongs to the parent process
	Version         Code = 14 // binding and library do not fit
	Internal        Code = 15 // a defect of the library
)

// Sentinels for errors.Is.
const (
	ErrInvalidArgument = InvalidArgument
	ErrNotFound        = NotFound
	ErrIO              = IO
	ErrBadModel        = BadModel
	ErrUnsupported     = Unsupported
	ErrOutOfMemory     = OutOfMemory
	ErrDevice          = Device
	ErrNoDevice        = NoDevice
	ErrTimeout         = Timeout
	ErrCancelled       = Cancelled
	ErrQueueFull       = QueueFull
	ErrClosed          = Closed
	ErrForked          = Forked
	ErrVersion         = Version
	ErrInternal        = Internal
)

var codeNames = [...]string{"OK", "InvalidArgument", "NotFound", "IO", "BadModel", "Unsupported", "OutOfMemory", "Device",
	"NoDevice", "Timeout", "Cancelled", "QueueFull", "Closed", "Forked", "Version", "Internal"}

// String is the code's Go name.
func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", int32(c))
}

// CName is the code's name in C, "DPI_E_BAD_MODEL": the same in every language, for metrics and logs. DPI_E_UNKNOWN for a code that the library
// does not have.
func (c Code) CName() string { return native.GoString(native.Dpi_status_name(int32(c))) }

// Error makes a code an error.
func (c Code) Error() string { return "dpi: " + c.String() }

// Error is what every failing call of this package returns; take it out with errors.As.
type Error struct {
	Code       Code
	Row        int  // offending row of the batch, -1 if none; a row of the shared part when InShared
	Feature    int  // index of the feature in the schema, -1 if none
	NativeCode int  // errno, cudaError_t ...; 0 if none
	InShared   bool // Row counts shared rows
	Message    string
}

// Error is the code with the library's text.
func (e *Error) Error() string { return "dpi: " + e.Code.String() + ": " + e.Message }

// Is makes errors.Is match the code, and context.DeadlineExceeded and context.Canceled where they are the cause.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return code == e.Code
	}
	return e.Code == Timeout && target == context.DeadlineExceeded || e.Code == Cancelled && target == context.Canceled
}

func failure(f native.Failure) *Error {
	return &Error{Code(f.Code), int(f.Row), int(f.Feature), int(f.NativeCode), f.InShared, f.Message}
}

// failed is the error of a call that ran under ctx. The watcher sets the cancel flag when the context's deadline passes
// too, and may be faster than the library's own clock: a deadline stays a Timeout.
func (s *seat) failed(ctx context.Context) *Error { return ended(ctx, failure(s.call.Failure())) }

func ended(ctx context.Context, e *Error) *Error {
	if e.Code == Cancelled && ctx.Err() == context.DeadlineExceeded {
		return contextError(ctx)
	}
	return e
}

func plainError(code Code, format string, args ...interface{}) *Error {
	return &Error{Code: code, Row: -1, Feature: -1, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...interface{}) *Error {
	return plainError(InvalidArgument, format, args...)
}

func closedError(what string) *Error { return plainError(Closed, "the %s is closed", what) }

func timeoutError(text string) *Error { return plainError(Timeout, "%s", text) }

func contextError(ctx context.Context) *Error {
	if ctx.Err() == context.DeadlineExceeded {
		return timeoutError("the context's deadline passed")
	}
	return plainError(Cancelled, "the context was cancelled")
}
