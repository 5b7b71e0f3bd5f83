/* call.h - what the hand-written calls of the Python module share: the exception of a status, views of
 * arrays, the cell that a Model holds its handle in. Included by python.i into the generated wrapper; nothing
 * here leaves that file. */
#ifndef DPI_PYTHON_CALL_H
#define DPI_PYTHON_CALL_H
#include <dpi/dpi.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stable.h"

/* From the package: error(code, row, feature, native_code, in_shared, message) makes an exception,
 * empty(shape) a new float32 array. */
static PyObject *dpi_py_error_of, *dpi_py_empty;

static PyObject* dpi_py_setup(PyObject* self, PyObject* args) {
  PyObject *error_of, *empty;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO", &error_of, &empty)) return NULL;
  Py_INCREF(error_of);
  Py_INCREF(empty);
  Py_XSETREF(dpi_py_error_of, error_of);
  Py_XSETREF(dpi_py_empty, empty);
  Py_RETURN_NONE;
}

/* The exception of an error that the library filled; NULL = another one is set. */
static PyObject* dpi_py_exception(const dpi_error* e) {
  PyObject* text = PyUnicode_DecodeUTF8(e->message, (Py_ssize_t)strlen(e->message), "replace");
  PyObject* made = NULL;
  if (text != NULL && dpi_py_error_of != NULL) {
    made = PyObject_CallFunction(dpi_py_error_of, "iLLiiO", (int)e->code, (long long)e->row,
                                 (long long)e->feature, (int)e->native_code, (int)e->in_shared, text);
  }
  Py_XDECREF(text);
  return made;
}

/* Sets it. */
static void dpi_py_raise(const dpi_error* e) {
  PyObject* made = dpi_py_exception(e);
  if (made != NULL) PyErr_SetObject((PyObject*)Py_TYPE(made), made);
  if (made == NULL && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e->message);
  Py_XDECREF(made);
}

/* A refusal of our own, in the library's words: row, feature -1 = none. Returns NULL. */
static PyObject* dpi_py_refuse(dpi_status code, const char* format, ...) {
  dpi_error e = DPI_ERROR_INIT;
  va_list arguments;
  e.code = code;
  va_start(arguments, format);
  PyOS_vsnprintf(e.message, sizeof e.message, format, arguments);
  va_end(arguments);
  dpi_py_raise(&e);
  return NULL;
}

/* None, an address, or memory of ours: a bytearray to write to, bytes to read. 0 = an exception is set. */
static int dpi_py_address(PyObject* object, void** address) {
  if (object == Py_None) {
    *address = NULL;
  } else if (PyByteArray_Check(object)) {
    *address = PyByteArray_AS_STRING(object);
  } else if (PyBytes_Check(object)) {
    *address = PyBytes_AS_STRING(object);
  } else {
    *address = PyLong_AsVoidPtr(object);
    return !PyErr_Occurred();
  }
  return 1;
}

/* Text for a NUL-terminated parameter; None is NULL. 0 = an exception is set. */
static int dpi_py_text(PyObject* object, const char** text) {
  Py_ssize_t size = 0;
  *text = NULL;
  if (object == Py_None) return 1;
  if (PyBytes_Check(object)) {
    *text = PyBytes_AS_STRING(object);
    size = PyBytes_GET_SIZE(object);
  } else {
    *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (*text == NULL) return 0;
  }
  if ((size_t)size == strlen(*text)) return 1;
  dpi_py_refuse(DPI_E_INVALID_ARGUMENT, "a text that ends at its first NUL holds one");
  return 0;
}

/* ---- arrays ----------------------------------------------------------------------------------------------
 */
/* A view of an array for the time of one call. Absent: buf NULL, n 0. */
typedef struct dpi_py_view {
  Py_buffer b;
  int held;
  int64_t n;      /* elements */
  int64_t stride; /* elements between the rows of a matrix, 0 where they lie one after the other */
} dpi_py_view;

enum { DPI_PY_TAKEN = 1, DPI_PY_OTHER_FORM = 0, DPI_PY_FAILED = -1 };
enum { DPI_PY_WRITABLE = 1, DPI_PY_STRIDED = 2 };

static void dpi_py_release(dpi_py_view* v) {
  if (v->held) PyBuffer_Release(&v->b);
  v->held = 0;
}

/* Whether `format` is one of the native letters in `letters`: "lq" for int64, "f" for float32. */
static int dpi_py_is_format(const char* format, const char* letters) {
  if (format == NULL) return 0;
  if (*format == '@' || *format == '=' || *format == '<') format++;
  return *format != 0 && format[1] == 0 && strchr(letters, *format) != NULL;
}

/* Takes `object` as it lies in memory: DPI_PY_OTHER_FORM when it is no array, or one of another type or
 * layout, which the package converts and hands over again. */
static int dpi_py_take(PyObject* object, const char* letters, Py_ssize_t size, int flags, dpi_py_view* v) {
  v->held = v->b.ndim = 0;
  v->n = v->stride = 0;
  v->b.buf = NULL;
  if (object == Py_None) return DPI_PY_TAKEN;
  const int wanted = PyBUF_STRIDES | PyBUF_FORMAT | (flags & DPI_PY_WRITABLE ? PyBUF_WRITABLE : 0);
  if (!PyObject_CheckBuffer(object) || PyObject_GetBuffer(object, &v->b, wanted) != 0) {
    PyErr_Clear();
    return DPI_PY_OTHER_FORM;
  }
  v->held = 1;
  v->n = v->b.len / (v->b.itemsize > 0 ? v->b.itemsize : 1);
  int fits = v->b.itemsize == size && dpi_py_is_format(v->b.format, letters) &&
             (uintptr_t)v->b.buf % (size_t)size == 0;
  if (fits && !PyBuffer_IsContiguous(&v->b, 'C')) {
    fits = (flags & DPI_PY_STRIDED) && v->b.ndim == 2 && v->b.strides[1] == size &&
           v->b.strides[0] >= v->b.shape[1] * size && v->b.strides[0] % size == 0;
    v->stride = fits ? v->b.strides[0] / size : 0;
  }
  if (fits) return DPI_PY_TAKEN;
  dpi_py_release(v);
  return DPI_PY_OTHER_FORM;
}

/* ---- a model's handle ------------------------------------------------------------------------------------
 */
/* Read and written with the GIL held, by functions that this package calls with one tuple. A call retains the
 * model before it lets go of the GIL, so that close() in another thread only drops the owner's reference: the
 * last call that still runs frees the model. */
typedef struct dpi_py_cell {
  dpi_model* model; /* NULL = closed */
  dpi_model_info info;
} dpi_py_cell;

static PyObject* dpi_py_cell_make(PyObject* self, PyObject* args) {
  dpi_error e = DPI_ERROR_INIT;
  dpi_py_cell* cell = calloc(1, sizeof *cell);
  (void)self;
  if (cell == NULL) return PyErr_NoMemory();
  cell->model = PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, 0));
  cell->info.struct_size = sizeof cell->info;
  if (!PyErr_Occurred() && dpi_model_get_info(cell->model, &cell->info, &e) == DPI_OK)
    return PyLong_FromVoidPtr(cell);
  if (!PyErr_Occurred()) dpi_py_raise(&e);
  free(cell);
  return NULL;
}

/* The cell of a call's first argument with a reference on its model, which the caller gives back; NULL = an
 * exception is set. */
static dpi_py_cell* dpi_py_cell_enter(PyObject* object, dpi_model** model) {
  dpi_py_cell* cell = PyLong_AsVoidPtr(object);
  if (PyErr_Occurred()) return NULL;
  if (cell == NULL || cell->model == NULL) {
    dpi_py_refuse(DPI_E_CLOSED, "the model is closed");
    return NULL;
  }
  *model = cell->model;
  dpi_model_retain(*model);
  return cell;
}

static PyObject* dpi_py_cell_retain(PyObject* self, PyObject* args) {
  dpi_model* model;
  (void)self;
  return dpi_py_cell_enter(PyTuple_GET_ITEM(args, 0), &model) == NULL ? NULL : PyLong_FromVoidPtr(model);
}

static PyObject* dpi_py_cell_close(PyObject* self, PyObject* args) {
  dpi_py_cell* cell = PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, 0));
  (void)self;
  if (PyErr_Occurred()) return NULL;
  dpi_model* model = cell->model;
  cell->model = NULL;
  Py_BEGIN_ALLOW_THREADS dpi_model_free(model);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject* dpi_py_cell_free(PyObject* self, PyObject* args) {
  (void)self;
  free(PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, 0)));
  return PyErr_Occurred() ? NULL : (Py_INCREF(Py_None), Py_None);
}
#endif
