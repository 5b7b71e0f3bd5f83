/* raw.h - raw values from Python objects and arrays into dpi_rows. The rules are those of Java and Go: a text
 * or bool is text, an integer its digits, a float a quantity, None missing, a list the elements of a
 * sequence. What is none of these goes to the package's `odd(feature, value)`, which converts it or names
 * what is wrong. Runs under the GIL. */
#ifndef DPI_PYTHON_RAW_H
#define DPI_PYTHON_RAW_H
#include "call.h"

typedef struct dpi_py_raw {
  dpi_rows* rows;
  PyObject* odd;
  PyObject* absent; /* stands for a value that is not set at all */
  dpi_error error;
} dpi_py_raw;

/* 1 done, 0 no value that is known here, -1 an exception is set. */
static int dpi_py_answer(dpi_py_raw* raw, dpi_status status) {
  if (status == DPI_OK) return 1;
  dpi_py_raise(&raw->error);
  return -1;
}

static int dpi_py_set_long(dpi_py_raw* raw, int32_t feature, PyObject* value) {
  int overflow = 0;
  const long long x = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) return dpi_py_answer(raw, dpi_rows_set_integer(raw->rows, feature, x, &raw->error));
  PyObject* digits = PyNumber_ToBase(value, 10); /* beyond 64 bits too nothing is rounded */
  if (digits == NULL) return -1;
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(digits, &size);
  const int done =
      text == NULL ? -1 : dpi_py_answer(raw, dpi_rows_set_text(raw->rows, feature, text, size, &raw->error));
  Py_DECREF(digits);
  return done;
}

/* One value that is no list. */
static int dpi_py_set_one(dpi_py_raw* raw, int32_t feature, PyObject* value) {
  if (value == raw->absent) return 1;
  if (PyUnicode_CheckExact(value)) {
    Py_ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text != NULL)
      return dpi_py_answer(raw, dpi_rows_set_text(raw->rows, feature, text, size, &raw->error));
    PyErr_Clear(); /* half of a surrogate pair */
    return 0;
  }
  if (PyFloat_CheckExact(value)) {
    return dpi_py_answer(raw, dpi_rows_set_number(raw->rows, feature, PyFloat_AS_DOUBLE(value), &raw->error));
  }
  if (value == Py_None) return dpi_py_answer(raw, dpi_rows_set_text(raw->rows, feature, "", 0, &raw->error));
  if (PyBool_Check(value)) {
    return dpi_py_answer(
        raw, dpi_rows_set_text(raw->rows, feature, value == Py_True ? "true" : "false", -1, &raw->error));
  }
  return PyLong_CheckExact(value) ? dpi_py_set_long(raw, feature, value) : 0;
}

/* All elements are known here before the first is set. */
static int dpi_py_set_list(dpi_py_raw* raw, int32_t feature, PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    PyObject* x = PyList_GET_ITEM(list, i);
    if (x != Py_None && !PyUnicode_CheckExact(x) && !PyFloat_CheckExact(x) && !PyBool_Check(x) &&
        !PyLong_CheckExact(x))
      return 0;
  }
  int done = dpi_py_answer(
      raw, dpi_rows_add_integers(raw->rows, feature, NULL, NULL, 0, &raw->error)); /* takes it a list? */
  for (Py_ssize_t i = 0; done > 0 && i < PyList_GET_SIZE(list); i++) {
    done = dpi_py_set_one(raw, feature, PyList_GET_ITEM(list, i));
  }
  return done;
}

/* A value of any kind; `vector`: the feature is a dense vector, whose floats the package converts. 0 = an
 * exception is set. */
static int dpi_py_set_value(dpi_py_raw* raw, int32_t feature, int vector, PyObject* value) {
  int done = 0;
  if (value == raw->absent) return 1;
  if (!vector)
    done =
        PyList_CheckExact(value) ? dpi_py_set_list(raw, feature, value) : dpi_py_set_one(raw, feature, value);
  if (done != 0) return done > 0;
  PyObject* answer = PyObject_CallFunction(raw->odd, "iO", (int)feature, value);
  Py_XDECREF(answer);
  return answer != NULL;
}

/* ---- columns ---------------------------------------------------------------------------------------------
 */
enum { DPI_PY_VALUES, DPI_PY_FLOAT64, DPI_PY_INT64, DPI_PY_UINT64, DPI_PY_MATRIX, DPI_PY_BAGS, DPI_PY_MODES };
/* A column of `fill`: (feature, mode, vector, values, offsets or None, weights or None). */
typedef struct dpi_py_column {
  int32_t feature;
  int mode, vector;
  PyObject* list;
  dpi_py_view values, offsets, weights;
} dpi_py_column;

static int dpi_py_column_take(PyObject* tuple, Py_ssize_t rows, dpi_py_column* c) {
  static const char* const letters[DPI_PY_MODES] = {"", "d", "lq", "LQ", "f", "lq"};
  PyObject *values, *offsets, *weights;
  if (!PyArg_ParseTuple(tuple, "iiiOOO", &c->feature, &c->mode, &c->vector, &values, &offsets, &weights))
    return 0;
  int fits = c->mode >= 0 && c->mode < DPI_PY_MODES;
  if (fits && c->mode == DPI_PY_VALUES) {
    c->list = values;
    fits = PyList_CheckExact(values) && PyList_GET_SIZE(values) == rows;
  } else if (fits) {
    fits = dpi_py_take(values, letters[c->mode], c->mode == DPI_PY_MATRIX ? 4 : 8, 0, &c->values) &&
           dpi_py_take(offsets, "lq", 8, 0, &c->offsets) && dpi_py_take(weights, "f", 4, 0, &c->weights);
    if (fits && c->mode == DPI_PY_BAGS) {
      fits = c->offsets.n == rows + 1 && (!c->weights.held || c->weights.n == c->values.n);
    } else if (fits) {
      fits = c->mode == DPI_PY_MATRIX ? c->values.b.ndim == 2 && c->values.b.shape[0] == rows
                                      : c->values.n == rows;
    }
  }
  if (!fits) dpi_py_refuse(DPI_E_INTERNAL, "a column of feature %d was not prepared", (int)c->feature);
  return fits;
}

static int dpi_py_set_bag(dpi_py_raw* raw, const dpi_py_column* c, Py_ssize_t row) {
  const int64_t* offsets = c->offsets.b.buf;
  const int64_t begin = offsets[row], end = offsets[row + 1];
  if (begin < 0 || end < begin || end > c->values.n) {
    dpi_py_refuse(DPI_E_INVALID_ARGUMENT,
                  "feature %d: offsets %lld to %lld of row %lld, expected rising ones up to %lld",
                  (int)c->feature, (long long)begin, (long long)end, (long long)row, (long long)c->values.n);
    return 0;
  }
  const float* weights = c->weights.held ? (const float*)c->weights.b.buf + begin : NULL;
  return dpi_py_answer(raw,
                       dpi_rows_add_integers(raw->rows, c->feature, (const int64_t*)c->values.b.buf + begin,
                                             weights, end - begin, &raw->error)) > 0;
}

static int dpi_py_set_cell(dpi_py_raw* raw, const dpi_py_column* c, Py_ssize_t row) {
  dpi_rows* rows = raw->rows;
  dpi_error* e = &raw->error;
  const int32_t f = c->feature;
  switch (c->mode) {
    case DPI_PY_FLOAT64:
      return dpi_py_answer(raw, dpi_rows_set_number(rows, f, ((const double*)c->values.b.buf)[row], e)) > 0;
    case DPI_PY_INT64:
      return dpi_py_answer(raw, dpi_rows_set_integer(rows, f, ((const int64_t*)c->values.b.buf)[row], e)) > 0;
    case DPI_PY_UINT64:
      return dpi_py_answer(raw, dpi_rows_set_unsigned(rows, f, ((const uint64_t*)c->values.b.buf)[row], e)) >
             0;
    case DPI_PY_MATRIX: {
      const int64_t width = c->values.b.shape[1];
      return dpi_py_answer(raw, dpi_rows_set_floats(rows, f, (const float*)c->values.b.buf + row * width,
                                                    width, e)) > 0;
    }
    case DPI_PY_BAGS:
      return dpi_py_set_bag(raw, c, row);
    default:
      break;
  }
  if (row >= PyList_GET_SIZE(c->list)) { /* `odd` ran the caller's code, which made the column shorter */
    dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "a column changed its length");
    return 0;
  }
  PyObject* value = PyList_GET_ITEM(c->list, row);
  Py_INCREF(value);
  const int done = dpi_py_set_value(raw, f, c->vector, value);
  Py_DECREF(value);
  return done;
}

static int dpi_py_fill_rows(dpi_py_raw* raw, const dpi_py_column* columns, Py_ssize_t n, Py_ssize_t begin,
                            Py_ssize_t end) {
  for (Py_ssize_t row = begin; row < end; row++) {
    for (Py_ssize_t c = 0; c < n; c++) {
      if (!dpi_py_set_cell(raw, &columns[c], row)) return 0;
    }
  }
  return 1;
}

static int dpi_py_begin_and_fill(dpi_py_raw* raw, const dpi_py_column* columns, Py_ssize_t n, Py_ssize_t row,
                                 int shared) {
  const dpi_status s =
      shared ? dpi_rows_begin_shared(raw->rows, &raw->error) : dpi_rows_begin(raw->rows, &raw->error);
  return dpi_py_answer(raw, s) > 0 && dpi_py_fill_rows(raw, columns, n, row, row + 1);
}

/* Takes every column of the tuple; the caller frees what it gets, also after a failure. */
static dpi_py_column* dpi_py_columns_take(PyObject* tuple, Py_ssize_t rows) {
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  dpi_py_column* columns = calloc((size_t)n + 1, sizeof *columns);
  if (columns == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; columns != NULL && i < n; i++) {
    if (!dpi_py_column_take(PyTuple_GET_ITEM(tuple, i), rows, &columns[i])) break;
  }
  return columns;
}

static void dpi_py_columns_free(dpi_py_column* columns, Py_ssize_t n) {
  for (Py_ssize_t i = 0; columns != NULL && i < n; i++) {
    dpi_py_release(&columns[i].values);
    dpi_py_release(&columns[i].offsets);
    dpi_py_release(&columns[i].weights);
  }
  free(columns);
}

/* (rows, columns, begin, end, total, shared, odd, absent): begins and sets the rows begin .. end-1 of columns
 * that hold `total`. */
static PyObject* dpi_py_rows_fill(PyObject* self, PyObject* args) {
  dpi_py_raw raw = {NULL, NULL, NULL, DPI_ERROR_INIT};
  PyObject *rows, *tuple;
  Py_ssize_t begin, end, total;
  int shared;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO!nnnpOO", &rows, &PyTuple_Type, &tuple, &begin, &end, &total, &shared,
                        &raw.odd, &raw.absent))
    return NULL;
  raw.rows = PyLong_AsVoidPtr(rows);
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  dpi_py_column* columns = dpi_py_columns_take(tuple, total);
  int good = !PyErr_Occurred() && columns != NULL && begin >= 0 && end <= total;
  for (Py_ssize_t row = begin; good && row < end; row++)
    good = dpi_py_begin_and_fill(&raw, columns, n, row, shared);
  dpi_py_columns_free(columns, n);
  if (!good)
    return PyErr_Occurred() ? NULL
                            : dpi_py_refuse(DPI_E_INTERNAL, "rows %zd to %zd of %zd", begin, end, total);
  Py_RETURN_NONE;
}

/* (rows, feature, vector, value, odd, absent): one value of the open row. */
static PyObject* dpi_py_rows_set(PyObject* self, PyObject* args) {
  dpi_py_raw raw = {NULL, NULL, NULL, DPI_ERROR_INIT};
  PyObject *rows, *value;
  int feature, vector;
  (void)self;
  if (!PyArg_ParseTuple(args, "OipOOO", &rows, &feature, &vector, &value, &raw.odd, &raw.absent)) return NULL;
  raw.rows = PyLong_AsVoidPtr(rows);
  if (PyErr_Occurred() || !dpi_py_set_value(&raw, feature, vector, value)) return NULL;
  Py_RETURN_NONE;
}

/* (rows, feature, ids or None, floats or None, weights or None, raw): dpi_rows_set_ids, _add_integers (raw)
 * or _set_floats of arrays. */
static PyObject* dpi_py_rows_arrays(PyObject* self, PyObject* args) {
  dpi_py_raw raw = {NULL, NULL, NULL, DPI_ERROR_INIT};
  PyObject *rows, *ids, *floats, *weights;
  dpi_py_view i, f, w;
  int feature, as_raw, done = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, "OiOOOp", &rows, &feature, &ids, &floats, &weights, &as_raw)) return NULL;
  raw.rows = PyLong_AsVoidPtr(rows);
  if (PyErr_Occurred()) return NULL;
  const int fits = dpi_py_take(ids, "lq", 8, 0, &i) & dpi_py_take(floats, "f", 4, 0, &f) &
                   dpi_py_take(weights, "f", 4, 0, &w);
  if (!fits || (w.held && w.n != i.n)) {
    dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "%lld weights for %lld integers", (long long)w.n, (long long)i.n);
  } else if (f.held) {
    done = dpi_py_answer(&raw, dpi_rows_set_floats(raw.rows, feature, f.b.buf, f.n, &raw.error));
  } else if (as_raw) {
    done = dpi_py_answer(&raw, dpi_rows_add_integers(raw.rows, feature, i.b.buf, w.b.buf, i.n, &raw.error));
  } else {
    done = dpi_py_answer(&raw, dpi_rows_set_ids(raw.rows, feature, i.b.buf, w.b.buf, i.n, &raw.error));
  }
  dpi_py_release(&i);
  dpi_py_release(&f);
  dpi_py_release(&w);
  if (done <= 0) return NULL;
  Py_RETURN_NONE;
}
#endif
