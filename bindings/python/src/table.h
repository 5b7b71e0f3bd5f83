/* table.h - dpi_table_lookup_run over arrays, without a copy of keys that are int64 or uint64. The GIL is
 * released while the library runs. */
#ifndef DPI_PYTHON_TABLE_H
#define DPI_PYTHON_TABLE_H
#include "predict.h"

/* What one call holds; all of it is given back by dpi_py_lookup_end. */
typedef struct dpi_py_lookup {
  dpi_model* model;
  const char* table;
  dpi_py_view keys, out_view, cancel;
  PyObject* out;
  dpi_run_options run;
} dpi_py_lookup;

/* What the library says of a table whose rows it does not read. */
static void dpi_py_lookup_refused(const dpi_py_lookup* l) {
  dpi_error e = DPI_ERROR_INIT;
  if (dpi_table_lookup(l->model, l->table, NULL, 0, NULL, 0, &e) == DPI_OK) {
    dpi_py_refuse(DPI_E_INTERNAL, "a table of no width");
  } else {
    dpi_py_raise(&e);
  }
}

/* Everything but the rows. The width is asked for before memory is taken for them. */
static int dpi_py_lookup_begin(PyObject* const* a, dpi_py_lookup* l) {
  if (!dpi_py_text(a[1], &l->table)) return DPI_PY_FAILED;
  if (!dpi_py_take(a[2], "lqLQ", 8, 0, &l->keys)) return DPI_PY_OTHER_FORM;
  if (!l->keys.held || l->keys.b.ndim != 1) {
    dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "keys: %d dimensions, expected [n]",
                  l->keys.held ? l->keys.b.ndim : 0);
    return DPI_PY_FAILED;
  }
  const dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  l->run = run;
  l->run.deadline_ns = PyLong_AsUnsignedLongLong(a[4]);
  if (PyErr_Occurred()) return DPI_PY_FAILED;
  if (!dpi_py_take(a[5], "i", 4, 0, &l->cancel)) {
    dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "cancel: expected a Cancel");
    return DPI_PY_FAILED;
  }
  l->run.cancel = l->cancel.held ? l->cancel.b.buf : NULL;
  const int32_t dim = dpi_table_dim(l->model, l->table);
  if (dim < 0) {
    dpi_py_lookup_refused(l);
    return DPI_PY_FAILED;
  }
  return dpi_py_result(a[3], l->keys.n, dim, "out", &l->out, &l->out_view) ? DPI_PY_TAKEN : DPI_PY_FAILED;
}

/* The array of rows if the call succeeded. */
static PyObject* dpi_py_lookup_end(dpi_py_lookup* l, int good) {
  dpi_py_release(&l->keys);
  dpi_py_release(&l->out_view);
  dpi_py_release(&l->cancel);
  if (good) return l->out;
  Py_XDECREF(l->out);
  return NULL;
}

/* (cell, table, keys, out or None, deadline in ns, the cancel flag's array or None). NotImplemented = keys of
 * another type or layout: the package converts them and calls again. */
static PyObject* dpi_py_table_lookup(PyObject* self, PyObject* args) {
  dpi_py_lookup l;
  dpi_error e = DPI_ERROR_INIT;
  (void)self;
  if (PyTuple_GET_SIZE(args) != 6) return PyErr_Format(PyExc_TypeError, "table_lookup takes 6 arguments");
  PyObject* room[6];
  PyObject* const* a = dpi_py_items(args, 6, room);
  memset(&l, 0, sizeof l);
  if (dpi_py_cell_enter(a[0], &l.model) == NULL) return NULL;
  const int form = dpi_py_lookup_begin(a, &l);
  dpi_status status = DPI_OK;
  Py_BEGIN_ALLOW_THREADS if (form == DPI_PY_TAKEN) {
    status = dpi_table_lookup_run(l.model, l.table, dpi_py_memory(&l.keys), (size_t)l.keys.n,
                                  dpi_py_memory(&l.out_view), (size_t)l.out_view.n, &l.run, &e);
  }
  dpi_model_free(l.model);
  Py_END_ALLOW_THREADS if (status != DPI_OK) dpi_py_raise(&e);
  PyObject* rows = dpi_py_lookup_end(&l, form == DPI_PY_TAKEN && status == DPI_OK);
  if (form != DPI_PY_OTHER_FORM) return rows;
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}
#endif
