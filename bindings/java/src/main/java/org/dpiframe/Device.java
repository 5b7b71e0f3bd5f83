package org.dpiframe;

import java.util.Locale;

/** What a model runs on: asked for in {@link Options#device(Device)}, reported by {@link ModelInfo#device()}. */
public enum Device {
  /** The slow reference implementation. */
  REF,
  CPU,
  /** An error when it cannot be used. */
  CUDA,
  /** Falls back to the CPU, and {@link Model#infoJson()} says why. */
  AUTO,
  /** A plugin that this version does not know; reported only. */
  OTHER;

  String option() {
    if (this == OTHER) throw new IllegalArgumentException("OTHER is reported only");
    return name().toLowerCase(Locale.ROOT);
  }

  static Device ofKind(int kind) {
    return kind == 0 ? REF : kind == 1 ? CPU : kind == 2 ? CUDA : OTHER;
  }
}
