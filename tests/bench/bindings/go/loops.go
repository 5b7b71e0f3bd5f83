// Package bench compares a predict from Go with the same call in a C loop.
package bench

/*
#cgo pkg-config: dpi
#include <dpi/dpi.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// n calls of predict in C on the model's pool; nanoseconds in all, -1 on an error.
static int64_t loop_predict(uintptr_t model, int64_t n, int64_t rows, const float *dense, int64_t dense_len,
                            const int64_t *ids, int64_t ids_len, float *out, int64_t out_len) {
  dpi_error e = {sizeof e};
  const int64_t start = now_ns();
  for (int64_t i = 0; i < n; i++) {
    if (dpi_predict_flat((dpi_model *)model, rows, dense, (size_t)dense_len, 0, ids, (size_t)ids_len, NULL, 0, NULL, 0, 0,
                         out, (size_t)out_len, 0, NULL, &e) != DPI_OK) return -1;
  }
  return now_ns() - start;
}

// What plain cgo would do: handle and error as C pointers.
static int32_t plain_predict(dpi_model *model, dpi_error *e, int64_t rows, const float *dense, int64_t dense_len,
                             const int64_t *ids, int64_t ids_len, float *out, int64_t out_len) {
  return dpi_predict_flat(model, rows, dense, (size_t)dense_len, 0, ids, (size_t)ids_len, NULL, 0, NULL, 0, 0, out,
                          (size_t)out_len, 0, NULL, e);
}

static void nothing(void) {}

// The same call with everything in C memory: a cgo call cannot cost less.
typedef struct prepared {
  dpi_model *model;
  int64_t rows, dense_len, ids_len, out_len;
  float *dense, *out;
  int64_t *ids;
  dpi_error error;
} prepared;

static prepared *prepare(uintptr_t model, int64_t rows, int64_t dense_len, int64_t ids_len, int64_t out_len) {
  prepared *p = calloc(1, sizeof *p);
  p->error.struct_size = sizeof p->error;
  p->model = (dpi_model *)model;
  p->rows = rows;
  p->dense = calloc((size_t)(p->dense_len = dense_len) + 1, sizeof *p->dense);
  p->ids = calloc((size_t)(p->ids_len = ids_len) + 1, sizeof *p->ids);
  p->out = calloc((size_t)(p->out_len = out_len) + 1, sizeof *p->out);
  return p;
}

static void unprepare(prepared *p) {
  free(p->dense);
  free(p->ids);
  free(p->out);
  free(p);
}

static int32_t predict_prepared(uintptr_t address) {
  prepared *p = (prepared *)address;
  return dpi_predict_flat(p->model, p->rows, p->dense, (size_t)p->dense_len, 0, p->ids, (size_t)p->ids_len, NULL, 0, NULL, 0, 0,
                          p->out, (size_t)p->out_len, 0, NULL, &p->error);
}
*/
import "C"

import "unsafe"

// Loop runs n predicts in C and returns nanoseconds in all.
func Loop(model uintptr, n, rows int, dense []float32, ids []int64, out []float32) int64 {
	return int64(C.loop_predict(C.uintptr_t(model), C.int64_t(n), C.int64_t(rows), floats(dense), C.int64_t(len(dense)),
		ints(ids), C.int64_t(len(ids)), floats(out), C.int64_t(len(out))))
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

// Plain is one predict with typed handles.
func Plain(model, e unsafe.Pointer, rows int, dense []float32, ids []int64, out []float32) int32 {
	return int32(C.plain_predict((*C.dpi_model)(model), (*C.dpi_error)(e), C.int64_t(rows), floats(dense), C.int64_t(len(dense)),
		ints(ids), C.int64_t(len(ids)), floats(out), C.int64_t(len(out))))
}

// Nothing is an empty call.
func Nothing() { C.nothing() }

// Prepared is a predict that has everything in C memory, zeros for values.
type Prepared struct{ p *C.prepared }

// NewPrepared allocates it.
func NewPrepared(model uintptr, rows, denseLen, idsLen, outLen int) Prepared {
	return Prepared{C.prepare(C.uintptr_t(model), C.int64_t(rows), C.int64_t(denseLen), C.int64_t(idsLen), C.int64_t(outLen))}
}

// Predict makes the call.
func (p Prepared) Predict() int32 {
	return int32(C.predict_prepared(C.uintptr_t(uintptr(unsafe.Pointer(p.p)))))
}

// Free gives the memory back.
func (p Prepared) Free() { C.unprepare(p.p) }
