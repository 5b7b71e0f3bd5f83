package org.dpiframe;

/**
 * What the library refused, as the status's own subclass. {@link #row()} and {@link #feature()} are -1 where the error
 * concerns none; {@link #feature()} is an index into {@link Schema#features()}.
 */
public class DpiException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The library's error block in Java: one argument instead of six. */
  record Detail(int code, String message, long row, long feature, boolean inShared, int nativeCode) {
    static Detail of(Status status, String message) {
      return new Detail(status.code(), message, -1, -1, false, 0);
    }
  }

  private final int code;
  private final long row;
  private final long feature;
  private final boolean inShared;
  private final int nativeCode;

  DpiException(Detail d) {
    super(d.message());
    code = d.code();
    row = d.row();
    feature = d.feature();
    inShared = d.inShared();
    nativeCode = d.nativeCode();
  }

  /** The status, {@link Status#UNKNOWN} for a code of a newer library. */
  public Status status() {
    return Status.of(code);
  }

  /** The C API's number of the status. */
  public int code() {
    return code;
  }

  /** The offending row of the batch, -1 if none; a row of the shared part when {@link #inShared()}. */
  public long row() {
    return row;
  }

  /** The offending feature's index in the schema, -1 if none. */
  public long feature() {
    return feature;
  }

  /** Whether {@link #row()} counts rows of the shared part. */
  public boolean inShared() {
    return inShared;
  }

  /** errno or the device's own error number, 0 if none. */
  public int nativeCode() {
    return nativeCode;
  }

  static DpiException of(Detail d) {
    switch (Status.of(d.code())) {
      case INVALID_ARGUMENT:
        return new InvalidArgument(d);
      case NOT_FOUND:
        return new NotFound(d);
      case IO:
        return new Io(d);
      case BAD_MODEL:
        return new BadModel(d);
      case UNSUPPORTED:
        return new Unsupported(d);
      case OUT_OF_MEMORY:
        return new OutOfMemory(d);
      case DEVICE:
        return new DeviceFailure(d);
      case NO_DEVICE:
        return new NoDevice(d);
      case TIMEOUT:
        return new Timeout(d);
      case CANCELLED:
        return new Cancelled(d);
      case QUEUE_FULL:
        return new QueueFull(d);
      case CLOSED:
        return new Closed(d);
      case FORKED:
        return new Forked(d);
      case VERSION:
        return new VersionMismatch(d);
      case INTERNAL:
        return new Internal(d);
      default:
        return new DpiException(d);
    }
  }

  static DpiException closed(String what) {
    return new Closed(Detail.of(Status.CLOSED, what + " is closed"));
  }

  /** The caller's input: length, offset, id or NaN; names row and feature where it can. */
  public static final class InvalidArgument extends DpiException {
    private static final long serialVersionUID = 1L;

    InvalidArgument(Detail d) {
      super(d);
    }
  }

  /** No such file, feature or option. */
  public static final class NotFound extends DpiException {
    private static final long serialVersionUID = 1L;

    NotFound(Detail d) {
      super(d);
    }
  }

  /** The file exists but cannot be read; {@link #nativeCode()} is errno. */
  public static final class Io extends DpiException {
    private static final long serialVersionUID = 1L;

    Io(Detail d) {
      super(d);
    }
  }

  /** Not a bundle, damaged, or inconsistent. */
  public static final class BadModel extends DpiException {
    private static final long serialVersionUID = 1L;

    BadModel(Detail d) {
      super(d);
    }
  }

  /** Well-formed, but of a newer format or an option that this build lacks. */
  public static final class Unsupported extends DpiException {
    private static final long serialVersionUID = 1L;

    Unsupported(Detail d) {
      super(d);
    }
  }

  /** Host or device memory; for models forecast before anything is loaded. */
  public static final class OutOfMemory extends DpiException {
    private static final long serialVersionUID = 1L;

    OutOfMemory(Detail d) {
      super(d);
    }
  }

  /** The device failed; {@link #nativeCode()} is its error. */
  public static final class DeviceFailure extends DpiException {
    private static final long serialVersionUID = 1L;

    DeviceFailure(Detail d) {
      super(d);
    }
  }

  /** The requested device cannot be used; the text says why. */
  public static final class NoDevice extends DpiException {
    private static final long serialVersionUID = 1L;

    NoDevice(Detail d) {
      super(d);
    }
  }

  /** The deadline passed. */
  public static final class Timeout extends DpiException {
    private static final long serialVersionUID = 1L;

    Timeout(Detail d) {
      super(d);
    }
  }

  /** The cancel flag was set. */
  public static final class Cancelled extends DpiException {
    private static final long serialVersionUID = 1L;

    Cancelled(Detail d) {
      super(d);
    }
  }

  /** The host tier fetches as many rows as it may (options store.*), or as many requests wait in a batcher (batch.queue): try again. */
  public static final class QueueFull extends DpiException {
    private static final long serialVersionUID = 1L;

    QueueFull(Detail d) {
      super(d);
    }
  }

  /** The object was closed before the call. */
  public static final class Closed extends DpiException {
    private static final long serialVersionUID = 1L;

    Closed(Detail d) {
      super(d);
    }
  }

  /** The handle belongs to the parent process. */
  public static final class Forked extends DpiException {
    private static final long serialVersionUID = 1L;

    Forked(Detail d) {
      super(d);
    }
  }

  /** Binding and library do not fit; the text has both versions and the library's path. */
  public static final class VersionMismatch extends DpiException {
    private static final long serialVersionUID = 1L;

    VersionMismatch(Detail d) {
      super(d);
    }
  }

  /** A defect of the library; please report the text. */
  public static final class Internal extends DpiException {
    private static final long serialVersionUID = 1L;

    Internal(Detail d) {
      super(d);
    }
  }
}
