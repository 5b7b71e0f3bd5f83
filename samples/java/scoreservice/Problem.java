package scoreservice;

import java.util.LinkedHashMap;
import java.util.Map;

/** Why a request is not scored. */
final class Problem extends Exception {
  private static final long serialVersionUID = 1L;

  /** A label of /metrics, which decides the status. A client that went away, or was too slow with its body, gets no answer. */
  enum Cause {
    PATH(404), METHOD(405), TOO_LARGE(413), JSON(400), VALUE(400), OVERLOAD(503), TIMEOUT(503), UNAVAILABLE(503), STOPPING(503), CLIENT(0), INTERNAL(500);

    final int status;

    Cause(int status) {
      this.status = status;
    }

    String label() {
      return name().toLowerCase(java.util.Locale.ROOT);
    }
  }

  final Cause cause;
  private final long row;
  private final String feature;
  private int user = -1;

  Problem(Cause cause, String text) {
    this(cause, text, -1, null);
  }

  /** {@code row} -1 and {@code feature} null: none is to blame. */
  Problem(Cause cause, String text, long row, String feature) {
    super(text, null, false, false);
    this.cause = cause;
    this.row = row;
    this.feature = feature;
  }

  /** Says which user of the request's list it is of. */
  Problem of(int which) {
    user = which;
    return this;
  }

  Map<String, Object> fields() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("error", getMessage());
    fields.put("cause", cause.label());
    if (row >= 0) fields.put("row", row);
    if (user >= 0) fields.put("user", user);
    if (feature != null) fields.put("feature", feature);
    return fields;
  }
}
