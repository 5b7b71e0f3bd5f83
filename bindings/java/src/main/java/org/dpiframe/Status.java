package org.dpiframe;

/** The library's status codes. A code this version does not know is {@link #UNKNOWN}. */
public enum Status {
  OK(0),
  INVALID_ARGUMENT(1),
  NOT_FOUND(2),
  IO(3),
  BAD_MODEL(4),
  UNSUPPORTED(5),
  OUT_OF_MEMORY(6),
  DEVICE(7),
  NO_DEVICE(8),
  TIMEOUT(9),
  CANCELLED(10),
  QUEUE_FULL(11),
  CLOSED(12),
  FORKED(13),
  VERSION(14),
  INTERNAL(15),
  UNKNOWN(-1);

  private final int code;

  Status(int code) {
    this.code = code;
  }

  /** The C API's number. */
  public int code() {
    return code;
  }

  /** The C API's name, DPI_E_BAD_MODEL: the same in every language, for metrics and logs. */
  public String cName() {
    return this == OK ? "DPI_OK" : "DPI_E_" + name();
  }

  /** The status of the C API's number. */
  public static Status of(int code) {
    for (Status s : values()) {
      if (s.code == code) return s;
    }
    return UNKNOWN;
  }
}
