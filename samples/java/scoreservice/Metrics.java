package scoreservice;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.dpiframe.Environment;

/** Counts what the HTTP side did, and writes it in Prometheus' text format, with the library's own page behind it. */
final class Metrics {
  /** Upper ends of the histogram's buckets, in seconds. */
  private static final String[] ENDS =
      {"0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10"};
  private static final double[] BOUNDS = Arrays.stream(ENDS).mapToDouble(Double::parseDouble).toArray();

  private final Map<String, Long> requests = new TreeMap<>();  // by labels
  private final Map<Problem.Cause, Long> causes = new EnumMap<>(Problem.Cause.class);
  private final long[] buckets = new long[BOUNDS.length + 1];
  private double seconds;

  Metrics() {
    for (Problem.Cause cause : Problem.Cause.values()) causes.put(cause, 0L);
  }

  synchronized void answered(String path, int status, long nanos) {
    requests.merge(label("path", path) + "," + label("status", "" + status), 1L, Long::sum);
    if (!path.equals("/score")) return;
    int at = Arrays.binarySearch(BOUNDS, nanos / 1e9);
    buckets[at < 0 ? -at - 1 : at]++;
    seconds += nanos / 1e9;
  }

  synchronized void refused(Problem.Cause cause) {
    causes.merge(cause, 1L, Long::sum);
  }

  /** The service's own page, and behind it the library's: no family is in both. */
  String text(int inFlight, Versions versions) {
    Page page = new Page();
    own(page);
    versions.show(page);
    page.sample("dpi_http_in_flight", "gauge", "Requests to /score that are being received, scored or answered.", "", "", inFlight);
    return page.text() + Environment.process().metrics();
  }

  private synchronized void own(Page page) {
    requests.forEach((labels, n) -> page.sample("dpi_http_requests_total", "counter", "Requests answered.", "", labels, n));
    causes.forEach((cause, n) -> page.sample(
        "dpi_http_refused_total", "counter", "Requests that were not scored.", "", label("cause", cause.label()), n));
    String name = "dpi_http_score_seconds";
    String help = "Time of a request to /score, from its head to its answer.";
    long total = 0;
    for (int i = 0; i < buckets.length; i++) {
      total += buckets[i];
      String end = i < ENDS.length ? ENDS[i] : "+Inf";
      page.sample(name, "histogram", help, "_bucket", label("le", end), total);
    }
    page.sample(name, "histogram", help, "_sum", "", seconds);
    page.sample(name, "histogram", help, "_count", "", total);
  }

  static String label(String name, String value) {
    return name + "=\"" + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
  }

  /** Collects samples under their metric, since a metric's samples must stand together. */
  static final class Page {
    private final Map<String, StringBuilder> metrics = new LinkedHashMap<>();

    void sample(String name, String kind, String help, String suffix, String labels, Number value) {
      metrics.computeIfAbsent(name, n -> new StringBuilder("# HELP " + n + " " + help + "\n# TYPE " + n + " " + kind + "\n"))
          .append(name).append(suffix).append(labels.isEmpty() ? "" : "{" + labels + "}").append(' ').append(value).append('\n');
    }

    String text() {
      return String.join("", metrics.values());
    }
  }
}
