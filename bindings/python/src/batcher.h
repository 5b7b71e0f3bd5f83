/* batcher.h - dpi_batcher_predict, _submit and _poll over arrays. The arrays of a batch are read until a
 * submit returns; those that the library writes to, and the cancel flag, are held by the tuple that it
 * returns, which the package keeps until the completion. The GIL is released while the library runs. */
#ifndef DPI_PYTHON_BATCHER_H
#define DPI_PYTHON_BATCHER_H
#include <dpi/batcher.h>

#include "predict.h"

enum { DPI_PY_COMPLETIONS = 32 };

/* A copy of a cell's sizes without its model, which dpi_py_cell_free frees. */
static PyObject* dpi_py_cell_sizes(PyObject* self, PyObject* args) {
  const dpi_py_cell* of = PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, 0));
  (void)self;
  if (PyErr_Occurred()) return NULL;
  dpi_py_cell* sizes = calloc(1, sizeof *sizes);
  if (sizes == NULL) return PyErr_NoMemory();
  sizes->info = of->info;
  return PyLong_FromVoidPtr(sizes);
}

/* One call: what it reads and writes. */
typedef struct dpi_py_batched {
  dpi_batcher* batcher;
  dpi_py_part item, shared;
  dpi_py_view starts;
  dpi_py_run run;
  dpi_batch batch;
} dpi_py_batched;

/* (batcher, sizes, and what `predict` takes behind its cell): DPI_PY_TAKEN, or another form. */
static int dpi_py_batched_begin(PyObject* const* a, dpi_py_batched* c) {
  const dpi_batch none = DPI_BATCH_INIT;
  memset(c, 0, sizeof *c);
  c->batch = none;
  c->batcher = PyLong_AsVoidPtr(a[0]);
  const dpi_py_cell* sizes = PyErr_Occurred() ? NULL : PyLong_AsVoidPtr(a[1]);
  if (PyErr_Occurred()) return DPI_PY_FAILED;
  const int form = dpi_py_batch_of(a + 1, &sizes->info, &c->item, &c->shared, &c->starts, &c->batch);
  if (form == DPI_PY_TAKEN && !dpi_py_run_begin(a + 1 + A_OUT, c->batch.rows, sizes->info.num_heads, &c->run))
    return DPI_PY_FAILED;
  return form;
}

/* The result of a call that was `good`. */
static PyObject* dpi_py_batched_end(dpi_py_batched* c, int form, int good) {
  dpi_py_part_release(&c->item);
  dpi_py_part_release(&c->shared);
  dpi_py_release(&c->starts);
  PyObject* result = dpi_py_run_end(&c->run, good);
  if (form != DPI_PY_OTHER_FORM) return result;
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

static PyObject* dpi_py_batcher_predict(PyObject* self, PyObject* args) {
  dpi_py_batched c;
  dpi_error e = DPI_ERROR_INIT;
  dpi_status status = DPI_OK;
  (void)self;
  if (PyTuple_GET_SIZE(args) != A_COUNT + 1)
    return PyErr_Format(PyExc_TypeError, "batcher_predict takes %d arguments", (int)A_COUNT + 1);
  PyObject* room[A_COUNT + 1];
  const int form = dpi_py_batched_begin(dpi_py_items(args, A_COUNT + 1, room), &c);
  Py_BEGIN_ALLOW_THREADS if (form == DPI_PY_TAKEN) {
    status = dpi_batcher_predict(c.batcher, &c.batch, dpi_py_memory(&c.run.out_view),
                                 (size_t)c.run.out_view.n, &c.run.options, &e);
  }
  Py_END_ALLOW_THREADS if (status != DPI_OK) dpi_py_raise(&e);
  return dpi_py_batched_end(&c, form, form == DPI_PY_TAKEN && status == DPI_OK);
}

/* Memoryviews of what the library keeps: their arrays can be neither freed nor resized. */
static PyObject* dpi_py_held(const dpi_py_run* run, PyObject* cancel) {
  PyObject* out = PyMemoryView_FromObject(run->out);
  PyObject* logits =
      run->logits != NULL ? PyMemoryView_FromObject(run->logits) : (Py_INCREF(Py_None), Py_None);
  PyObject* flag = cancel != Py_None ? PyMemoryView_FromObject(cancel) : (Py_INCREF(Py_None), Py_None);
  PyObject* held = out != NULL && logits != NULL && flag != NULL ? PyTuple_Pack(3, out, logits, flag) : NULL;
  Py_XDECREF(out);
  Py_XDECREF(logits);
  Py_XDECREF(flag);
  return held;
}

/* (ticket, result, held) of a request that was left with the batcher. */
static PyObject* dpi_py_submitted(uint64_t ticket, PyObject* result, PyObject* held) {
  if (result == NULL || result == Py_NotImplemented) {
    Py_XDECREF(held);
    return result;
  }
  return Py_BuildValue("KNN", (unsigned long long)ticket, result, held);
}

/* The arguments of batcher_predict, then the number that the completion names. */
static PyObject* dpi_py_batcher_submit(PyObject* self, PyObject* args) {
  dpi_py_batched c;
  dpi_error e = DPI_ERROR_INIT;
  dpi_status status = DPI_OK;
  uint64_t ticket = 0;
  PyObject* held = NULL;
  (void)self;
  if (PyTuple_GET_SIZE(args) != A_COUNT + 2)
    return PyErr_Format(PyExc_TypeError, "batcher_submit takes %d arguments", (int)A_COUNT + 2);
  PyObject* room[A_COUNT + 2];
  PyObject* const* a = dpi_py_items(args, A_COUNT + 2, room);
  const uint64_t user = PyLong_AsUnsignedLongLong(a[A_COUNT + 1]);
  if (PyErr_Occurred()) return NULL;
  int form = dpi_py_batched_begin(a, &c);
  if (form == DPI_PY_TAKEN && (held = dpi_py_held(&c.run, a[1 + A_OUT + 3])) == NULL) form = DPI_PY_FAILED;
  Py_BEGIN_ALLOW_THREADS if (form == DPI_PY_TAKEN) {
    status = dpi_batcher_submit(c.batcher, &c.batch, dpi_py_memory(&c.run.out_view), (size_t)c.run.out_view.n,
                                &c.run.options, user, &ticket, &e);
  }
  Py_END_ALLOW_THREADS if (status != DPI_OK) dpi_py_raise(&e);
  return dpi_py_submitted(ticket, dpi_py_batched_end(&c, form, form == DPI_PY_TAKEN && status == DPI_OK),
                          held);
}

/* (batcher, rows, heads, out, logits, deadline, cancel[, number]): with a number a submit, else a predict.
 * The caller sees to it that no other thread uses the rows. */
static PyObject* dpi_py_batcher_rows(PyObject* self, PyObject* args) {
  dpi_py_run run;
  dpi_error e = DPI_ERROR_INIT;
  dpi_status status = DPI_OK;
  uint64_t ticket = 0;
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  (void)self;
  if (n != 7 && n != 8) return PyErr_Format(PyExc_TypeError, "batcher_rows takes 7 arguments, or 8");
  PyObject* room[8];
  PyObject* const* a = dpi_py_items(args, n, room);
  dpi_batcher* batcher = PyLong_AsVoidPtr(a[0]);
  dpi_rows* rows = PyErr_Occurred() ? NULL : PyLong_AsVoidPtr(a[1]);
  const long long heads = PyErr_Occurred() ? 0 : PyLong_AsLongLong(a[2]);
  const uint64_t user = n == 8 && !PyErr_Occurred() ? PyLong_AsUnsignedLongLong(a[7]) : 0;
  if (PyErr_Occurred()) return NULL;
  memset(&run, 0, sizeof run);
  PyObject* held = NULL;
  int good = dpi_py_run_begin(a + 3, dpi_rows_count(rows), heads, &run);
  if (good && n == 8) good = (held = dpi_py_held(&run, a[6])) != NULL;
  Py_BEGIN_ALLOW_THREADS if (good) {
    float* out = dpi_py_memory(&run.out_view);
    const size_t room = (size_t)run.out_view.n;
    status = n == 8 ? dpi_batcher_rows_submit(batcher, rows, out, room, &run.options, user, &ticket, &e)
                    : dpi_batcher_rows_predict(batcher, rows, out, room, &run.options, &e);
  }
  Py_END_ALLOW_THREADS if (status != DPI_OK) dpi_py_raise(&e);
  PyObject* result = dpi_py_run_end(&run, good && status == DPI_OK);
  return n == 8 ? dpi_py_submitted(ticket, result, held) : result;
}

/* (batcher, timeout in us): a list of (number, version, queued_ns, run_ns, exception or None). */
static PyObject* dpi_py_batcher_poll(PyObject* self, PyObject* args) {
  dpi_completion done[DPI_PY_COMPLETIONS];
  dpi_error e = DPI_ERROR_INIT;
  dpi_status status;
  size_t n = 0;
  (void)self;
  dpi_batcher* batcher = PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, 0));
  const long long timeout = PyErr_Occurred() ? 0 : PyLong_AsLongLong(PyTuple_GET_ITEM(args, 1));
  if (PyErr_Occurred()) return NULL;
  memset(done, 0, sizeof done);
  done[0].struct_size = sizeof done[0];
  Py_BEGIN_ALLOW_THREADS status = dpi_batcher_poll(batcher, done, DPI_PY_COMPLETIONS, timeout, &n, &e);
  Py_END_ALLOW_THREADS if (status != DPI_OK && status != DPI_E_CLOSED) {
    dpi_py_raise(&e);
    return NULL;
  }
  PyObject* list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list != NULL && i < n; i++) {
    PyObject* failed =
        done[i].status == DPI_OK ? (Py_INCREF(Py_None), Py_None) : dpi_py_exception(&done[i].error);
    PyObject* one = failed == NULL ? NULL
                                   : Py_BuildValue("KKKKN", (unsigned long long)done[i].user,
                                                   (unsigned long long)done[i].version,
                                                   (unsigned long long)done[i].queued_ns,
                                                   (unsigned long long)done[i].run_ns, failed);
    if (one == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, (Py_ssize_t)i, one);
    }
  }
  return list;
}
#endif
