package org.dpiframe;

import java.lang.reflect.Array;
import java.util.Collection;
import java.util.Iterator;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** The rules by which {@link Rows#setAll} reads a Java value; see there. Those of Go and C are the same. */
final class RawValue {
  /** Why a value fits no rule; the caller knows row and feature. */
  static final class Misfit extends Exception {
    private static final long serialVersionUID = 1L;

    Misfit(String message) {
      super(message, null, false, false);
    }
  }

  private RawValue() {}

  static boolean isInteger(Object value) {
    return value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte
        || value instanceof AtomicLong || value instanceof AtomicInteger;
  }

  /** A binary floating-point number, which is read as a quantity; others are read by their digits. */
  static boolean isQuantity(Object value) {
    return value instanceof Double || value instanceof Float;
  }

  /** What the library reads as text: null for a value that is none. Numbers that are left here are read by their digits. */
  static String text(Object value) {
    boolean isText = value instanceof CharSequence || value instanceof Character || value instanceof Boolean
        || value instanceof Number;
    return isText ? value.toString() : null;
  }

  /** A list of values, or null: a collection or an array, but no text's bytes or characters. */
  static Iterator<?> list(Object value) {
    if (value instanceof Collection<?> c) return c.iterator();
    if (value == null || !value.getClass().isArray() || value instanceof byte[] || value instanceof char[]) return null;
    return new Iterator<Object>() {
      private int next;

      @Override
      public boolean hasNext() {
        return next < Array.getLength(value);
      }

      @Override
      public Object next() {
        return Array.get(value, next++);
      }
    };
  }

  static int size(Object list) {
    return list instanceof Collection<?> c ? c.size() : Array.getLength(list);
  }

  /** The floats of a dense vector; null in the list is missing. */
  static float[] floats(Object list) throws Misfit {
    float[] values = new float[size(list)];
    Iterator<?> elements = list(list);
    for (int i = 0; i < values.length && elements.hasNext(); i++) {
      Object element = elements.next();
      if (element == null) {
        values[i] = Float.NaN;
      } else if (isInteger(element) || isQuantity(element)) {
        values[i] = ((Number) element).floatValue();
      } else {
        values[i] = decimal(element, i);
      }
    }
    return values;
  }

  private static float decimal(Object element, int i) throws Misfit {
    try {
      if (element instanceof Number) return (float) Double.parseDouble(element.toString());
    } catch (NumberFormatException e) {
      throw new Misfit("element " + i + " is no number: " + element);
    }
    throw new Misfit("element " + i + " is no number but a " + element.getClass().getName());
  }
}
