/* predict.h - dpi_predict and dpi_rows_predict over arrays, without a copy: lengths are checked here, because
 * the library sees pointers only; everything inside the arrays is checked there. The GIL is released while
 * the library runs. */
#ifndef DPI_PYTHON_PREDICT_H
#define DPI_PYTHON_PREDICT_H
#include "call.h"

enum { DPI_PY_IDS, DPI_PY_DENSE, DPI_PY_OFFSETS, DPI_PY_WEIGHTS, DPI_PY_PART };
/* One part of a batch, all features or item's or shared ones. */
typedef struct dpi_py_part {
  dpi_py_view v[DPI_PY_PART];
  int64_t slots, columns;
} dpi_py_part;

/* What a call gives back, and how it may end early. */
typedef struct dpi_py_run {
  PyObject *out, *logits; /* arrays, new references; logits may be NULL */
  dpi_py_view out_view, logits_view, cancel;
  dpi_run_options options;
} dpi_py_run;

/* 1, 0 for a form that has to be converted first. */
static int dpi_py_part_take(PyObject* const* objects, dpi_py_part* p) {
  static const char* const letters[DPI_PY_PART] = {"lq", "f", "lq", "f"};
  static const Py_ssize_t sizes[DPI_PY_PART] = {8, 4, 8, 4};
  for (int i = 0; i < DPI_PY_PART; i++) {
    if (!dpi_py_take(objects[i], letters[i], sizes[i], i == DPI_PY_DENSE ? DPI_PY_STRIDED : 0, &p->v[i]))
      return 0;
  }
  return 1;
}

static void dpi_py_part_release(dpi_py_part* p) {
  for (int i = 0; i < DPI_PY_PART; i++) dpi_py_release(&p->v[i]);
}

/* Rows of a part by its arrays; -1 when nothing tells. */
static int64_t dpi_py_part_rows(const dpi_py_part* p) {
  const dpi_py_view* v = p->v;
  if (p->slots > 0 && v[DPI_PY_OFFSETS].held) return (v[DPI_PY_OFFSETS].n - 1) / p->slots;
  if (p->slots > 0 && v[DPI_PY_IDS].held) return v[DPI_PY_IDS].n / p->slots;
  if (p->columns > 0 && v[DPI_PY_DENSE].held) return v[DPI_PY_DENSE].n / p->columns;
  return -1;
}

static int dpi_py_is_matrix(const dpi_py_view* v, int64_t rows, int64_t columns) {
  return v->b.ndim < 2 ? v->n == rows * columns
                       : v->b.ndim == 2 && v->b.shape[0] == rows && v->b.shape[1] == columns;
}

enum { DPI_PY_SHAPE_TEXT = 96 };
/* "[3, 4]", or "none" for an array that is not given. Of more than three dimensions the first ones. */
static const char* dpi_py_shape(const dpi_py_view* v, char text[DPI_PY_SHAPE_TEXT]) {
  if (!v->held) return "none";
  int at = snprintf(text, DPI_PY_SHAPE_TEXT, "[");
  for (int d = 0; d < v->b.ndim && d < 3; d++)
    at += snprintf(text + at, 24, d > 0 ? ", %lld" : "%lld", (long long)v->b.shape[d]);
  snprintf(text + at, 8, v->b.ndim > 3 ? ", ...]" : "]");
  return text;
}

/* Sets the exception of an array that is no matrix of a by b; -1 stands for a number of rows that nothing
 * else tells. Returns 0. */
static int dpi_py_misshapen(const char* what, const char* name, const dpi_py_view* v, int64_t a, int64_t b,
                            const char* hint) {
  char shape[DPI_PY_SHAPE_TEXT], first[24] = "rows", second[24] = "rows";
  if (a >= 0) snprintf(first, sizeof first, "%lld", (long long)a);
  if (b >= 0) snprintf(second, sizeof second, "%lld", (long long)b);
  return dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "%s%s: %s, expected [%s, %s]%s", what, name,
                       dpi_py_shape(v, shape), first, second, hint) != NULL;
}

/* Whether the arrays are as long as `rows` rows of the part need; else an exception is set that names `what`
 * part. told: the number of rows comes from elsewhere. */
static int dpi_py_part_fits(const dpi_py_part* p, int64_t rows, int told, int slot_major, const char* what) {
  const dpi_py_view *ids = &p->v[DPI_PY_IDS], *dense = &p->v[DPI_PY_DENSE], *offsets = &p->v[DPI_PY_OFFSETS];
  const dpi_py_view* weights = &p->v[DPI_PY_WEIGHTS];
  const long long r = rows, slots = p->slots, columns = p->columns;
  const int most = rows > INT64_MAX / 65536;
  const dpi_status bad = DPI_E_INVALID_ARGUMENT;
  if (rows < 0 || most) return dpi_py_refuse(bad, "%s%lld rows", what, r) != NULL;
  const int64_t a = slot_major ? slots : rows, b = slot_major ? rows : slots;
  if (!offsets->held && (slots * rows > 0 || ids->n > 0) && !dpi_py_is_matrix(ids, a, b)) {
    return dpi_py_misshapen(what, "ids", ids, told || slot_major ? a : -1, told || !slot_major ? b : -1,
                            ", one id per row and slot without offsets");
  }
  if (offsets->held && offsets->n != rows * slots + 1) {
    return dpi_py_refuse(bad, "%soffsets: %lld, expected rows * slots + 1 = %lld", what,
                         (long long)offsets->n, r * slots + 1) != NULL;
  }
  if ((columns * rows > 0 || dense->n > 0) && !dpi_py_is_matrix(dense, rows, columns)) {
    return dpi_py_misshapen(what, "dense", dense, told || slots > 0 ? rows : -1, columns, "");
  }
  if (weights->held && weights->n != ids->n) {
    return dpi_py_refuse(bad, "%sweights: %lld, expected one per id, %lld", what, (long long)weights->n,
                         (long long)ids->n) != NULL;
  }
  return 1;
}

/* A view's memory; an array without elements may lie nowhere, and NULL would mean that there is none. */
static void* dpi_py_memory(const dpi_py_view* v) {
  static int64_t none[2];
  return !v->held ? NULL : v->n > 0 && v->b.buf != NULL ? v->b.buf : none;
}

static void dpi_py_fill_batch(dpi_batch* b, const dpi_py_part* item, const dpi_py_part* shared) {
  b->ids = dpi_py_memory(&item->v[DPI_PY_IDS]);
  b->nnz = item->v[DPI_PY_IDS].n;
  b->dense = dpi_py_memory(&item->v[DPI_PY_DENSE]);
  b->dense_stride = item->v[DPI_PY_DENSE].stride;
  b->offsets = dpi_py_memory(&item->v[DPI_PY_OFFSETS]);
  b->weights = dpi_py_memory(&item->v[DPI_PY_WEIGHTS]);
  b->shared_ids = dpi_py_memory(&shared->v[DPI_PY_IDS]);
  b->shared_nnz = shared->v[DPI_PY_IDS].n;
  b->shared_dense = dpi_py_memory(&shared->v[DPI_PY_DENSE]);
  b->shared_dense_stride = shared->v[DPI_PY_DENSE].stride;
  b->shared_bag_offsets = dpi_py_memory(&shared->v[DPI_PY_OFFSETS]);
  b->shared_weights = dpi_py_memory(&shared->v[DPI_PY_WEIGHTS]);
}

/* ---- what comes out --------------------------------------------------------------------------------------
 */
/* `given`: an array to write to, or None or True (for logits) for a new one. */
static int dpi_py_result(PyObject* given, int64_t rows, int64_t heads, const char* what, PyObject** array,
                         dpi_py_view* view) {
  if (given == Py_None || given == Py_True) {
    *array = PyObject_CallFunction(dpi_py_empty, "LL", (long long)rows, (long long)heads);
    if (*array == NULL) return 0;
  } else {
    Py_INCREF(given);
    *array = given;
  }
  if (dpi_py_take(*array, "f", 4, DPI_PY_WRITABLE, view) && dpi_py_is_matrix(view, rows, heads)) return 1;
  return dpi_py_refuse(DPI_E_INVALID_ARGUMENT,
                       "%s: expected a contiguous, writable float32 array [%lld, %lld]", what,
                       (long long)rows, (long long)heads) != NULL;
}

/* The last four arguments of both calls: out, logits (None and False for none, True or an array), deadline in
 * ns or None, the cancel flag's array or None. */
static int dpi_py_run_begin(PyObject* const* objects, int64_t rows, int64_t heads, dpi_py_run* run) {
  dpi_run_options options = DPI_RUN_OPTIONS_INIT;
  run->options = options;
  if (objects[2] != Py_None) run->options.deadline_ns = PyLong_AsUnsignedLongLong(objects[2]);
  if (PyErr_Occurred() || !dpi_py_result(objects[0], rows, heads, "out", &run->out, &run->out_view)) return 0;
  if (objects[1] != Py_None && objects[1] != Py_False) {
    if (!dpi_py_result(objects[1], rows, heads, "logits", &run->logits, &run->logits_view)) return 0;
    run->options.logits = dpi_py_memory(&run->logits_view);
    run->options.logits_len = (size_t)run->logits_view.n;
  }
  if (!dpi_py_take(objects[3], "i", 4, 0, &run->cancel))
    return dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "cancel: expected a Cancel") != NULL;
  run->options.cancel = run->cancel.held ? run->cancel.b.buf : NULL;
  return 1;
}

/* Gives the views back, and the arrays unless the call failed: out, or (out, logits). */
static PyObject* dpi_py_run_end(dpi_py_run* run, int good) {
  dpi_py_release(&run->out_view);
  dpi_py_release(&run->logits_view);
  dpi_py_release(&run->cancel);
  PyObject* result = NULL;
  if (good && run->logits != NULL) {
    result = PyTuple_Pack(2, run->out, run->logits);
  } else if (good) {
    result = run->out;
    run->out = NULL;
  }
  Py_XDECREF(run->out);
  Py_XDECREF(run->logits);
  return result;
}

/* ---- the calls -------------------------------------------------------------------------------------------
 */
/* Arguments of `predict`, in this order; or A_SHORT of them, those up to the layout, out and logits: the rest
 * is None. */
enum {
  A_CELL,
  A_ROWS,
  A_ITEM,
  A_LAYOUT = A_ITEM + DPI_PY_PART,
  A_SHARED_OFFSETS,
  A_SHARED,
  A_OUT = A_SHARED + DPI_PY_PART,
  A_COUNT = A_OUT + 4,
  A_SHORT = A_LAYOUT + 3
};

/* The arguments as A_COUNT of them, in `room`; NULL = an exception is set. */
static PyObject* const* dpi_py_arguments(PyObject* args, PyObject** room) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n != A_COUNT && n != A_SHORT) {
    PyErr_Format(PyExc_TypeError, "predict takes %d arguments, or %d", (int)A_COUNT, (int)A_SHORT);
    return NULL;
  }
  dpi_py_items(args, n, room);
  if (n == A_COUNT) return room;
  PyObject *out = room[A_LAYOUT + 1], *logits = room[A_LAYOUT + 2];
  for (int i = A_LAYOUT + 1; i < A_COUNT; i++) room[i] = Py_None;
  room[A_OUT] = out;
  room[A_OUT + 1] = logits;
  return room;
}

static int dpi_py_batch_of(PyObject* const* a, const dpi_model_info* i, dpi_py_part* item,
                           dpi_py_part* shared, dpi_py_view* starts, dpi_batch* b) {
  const int split = a[A_SHARED_OFFSETS] != Py_None;
  item->slots = split ? i->num_item_slots : i->num_slots;
  item->columns = split ? i->item_dense_dim : i->dense_dim;
  shared->slots = i->num_shared_slots;
  shared->columns = i->shared_dense_dim;
  if (!dpi_py_part_take(a + A_ITEM, item) || !dpi_py_part_take(a + A_SHARED, shared))
    return DPI_PY_OTHER_FORM;
  if (!dpi_py_take(a[A_SHARED_OFFSETS], "lq", 8, 0, starts)) return DPI_PY_OTHER_FORM;
  b->rows = PyLong_AsLongLong(a[A_ROWS]);
  b->layout = (int32_t)PyLong_AsLong(a[A_LAYOUT]);
  if (PyErr_Occurred()) return DPI_PY_FAILED;
  const int told = b->rows >= 0;
  if (!told) b->rows = dpi_py_part_rows(item);
  if (b->rows < 0 && starts->n > 0) b->rows = ((const int64_t*)starts->b.buf)[starts->n - 1];
  if (b->rows < 0) {
    dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "the arrays do not tell how many rows there are: give rows");
    return DPI_PY_FAILED;
  }
  const int slot_major = b->layout == DPI_LAYOUT_SLOT_MAJOR;
  if (!dpi_py_part_fits(item, b->rows, told, slot_major, "")) return DPI_PY_FAILED;
  if (split) {
    b->shared_rows = starts->n - 1;
    b->shared_offsets = dpi_py_memory(starts);
    if (!dpi_py_part_fits(shared, b->shared_rows, 1, slot_major, "shared ")) return DPI_PY_FAILED;
  }
  dpi_py_fill_batch(b, item, shared);
  return DPI_PY_TAKEN;
}

/* NotImplemented = an array is of another type or layout: the package converts it and calls again. */
static PyObject* dpi_py_predict(PyObject* self, PyObject* args) {
  dpi_model* model;
  dpi_py_part item, shared;
  dpi_py_view starts;
  dpi_py_run run;
  dpi_batch b = DPI_BATCH_INIT;
  dpi_error e = DPI_ERROR_INIT;
  (void)self;
  PyObject* room[A_COUNT];
  PyObject* const* a = dpi_py_arguments(args, room);
  if (a == NULL) return NULL;
  const dpi_py_cell* cell = dpi_py_cell_enter(a[A_CELL], &model);
  if (cell == NULL) return NULL;
  const dpi_model_info info = cell->info;
  memset(&item, 0, sizeof item);
  memset(&shared, 0, sizeof shared);
  memset(&starts, 0, sizeof starts);
  memset(&run, 0, sizeof run);
  int form = dpi_py_batch_of(a, &info, &item, &shared, &starts, &b);
  if (form == DPI_PY_TAKEN && !dpi_py_run_begin(a + A_OUT, b.rows, info.num_heads, &run))
    form = DPI_PY_FAILED;
  dpi_status status = DPI_OK;
  Py_BEGIN_ALLOW_THREADS if (form == DPI_PY_TAKEN) {
    status = dpi_predict(model, &b, dpi_py_memory(&run.out_view), (size_t)run.out_view.n, &run.options, &e);
  }
  dpi_model_free(model);
  Py_END_ALLOW_THREADS dpi_py_part_release(&item);
  dpi_py_part_release(&shared);
  dpi_py_release(&starts);
  if (status != DPI_OK) dpi_py_raise(&e);
  PyObject* result = dpi_py_run_end(&run, form == DPI_PY_TAKEN && status == DPI_OK);
  if (form != DPI_PY_OTHER_FORM) return result;
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

/* (rows, heads, out, logits, deadline, cancel): the caller sees to it that no other thread uses the rows. */
static PyObject* dpi_py_rows_predict(PyObject* self, PyObject* args) {
  dpi_py_run run;
  dpi_error e = DPI_ERROR_INIT;
  (void)self;
  if (PyTuple_GET_SIZE(args) != 6) return PyErr_Format(PyExc_TypeError, "rows_predict takes 6 arguments");
  PyObject* room[6];
  PyObject* const* a = dpi_py_items(args, 6, room);
  dpi_rows* rows = PyLong_AsVoidPtr(a[0]);
  const long long heads = PyLong_AsLongLong(a[1]);
  if (PyErr_Occurred()) return NULL;
  memset(&run, 0, sizeof run);
  if (!dpi_py_run_begin(a + 2, dpi_rows_count(rows), heads, &run)) return dpi_py_run_end(&run, 0);
  dpi_status status;
  Py_BEGIN_ALLOW_THREADS status =
      dpi_rows_predict(rows, dpi_py_memory(&run.out_view), (size_t)run.out_view.n, &run.options, &e);
  Py_END_ALLOW_THREADS if (status != DPI_OK) dpi_py_raise(&e);
  return dpi_py_run_end(&run, status == DPI_OK);
}
#endif
