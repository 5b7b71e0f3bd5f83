package org.dpiframe;

/** The kinds of features, in the order of the C API's numbers. */
public enum FeatureKind {
  /** One id per row. */
  CATEGORICAL,
  /** A bag of ids per row. */
  SEQUENCE,
  /** One float per row. */
  NUMERIC,
  /** {@link Feature#dim()} floats per row. */
  DENSE
}
