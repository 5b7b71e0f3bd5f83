package scoreservice;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.dpiframe.ModelInfo;
import org.dpiframe.Status;

/** Counts what the HTTP side did, and writes it with the library's own counters in Prometheus' text format. */
public final class Metrics {
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

  String text(String counters, int inFlight, ModelInfo info, Versions versions) {
    Page page = new Page();
    own(page);
    versions.show(page);
    page.sample("dpi_http_in_flight", "gauge", "Requests to /score that are being received, scored or answered.", "", "", inFlight);
    page.sample("dpi_model_host_bytes", "gauge", "Tables and weights in host memory.", "", "", info.hostBytes());
    page.sample("dpi_model_device_bytes", "gauge", "Tables and weights in device memory.", "", "", info.deviceBytes());
    page.counters(counters);
    return page.text();
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
  public static final class Page {
    private final Map<String, StringBuilder> metrics = new LinkedHashMap<>();

    void sample(String name, String kind, String help, String suffix, String labels, Number value) {
      metrics.computeIfAbsent(name, n -> new StringBuilder("# HELP " + n + " " + help + "\n# TYPE " + n + " " + kind + "\n"))
          .append(name).append(suffix).append(labels.isEmpty() ? "" : "{" + labels + "}").append(' ').append(value).append('\n');
    }

    /** Shows whatever the library counts. */
    public void counters(String text) {
      JsonParser.parseString(text).getAsJsonObject().entrySet()
          .forEach(e -> counter("dpi_" + e.getKey(), e.getKey(), "", e.getValue()));
    }

    /** Keys whose numbers also fall, as those that end in _ms do. */
    private static final Set<String> GAUGES = Set.of("queued", "running", "parked_now");

    /**
     * A number under its key; an object with its keys as a label; a list by its elements' names. What ends in _ms or is one of
     * GAUGES is a gauge, everything else only grows; true and false are the gauges 1 and 0. Errors are labelled by name.
     */
    private void counter(String name, String key, String labels, JsonElement value) {
      String one = singular(key);
      if (value.isJsonObject()) {
        value.getAsJsonObject().entrySet()
            .forEach(e -> counter(name, key, join(labels, label(one, named(key, e.getKey()))), e.getValue()));
      } else if (value.isJsonArray()) {
        for (JsonElement element : value.getAsJsonArray()) {
          JsonObject object = element.getAsJsonObject();
          String named = join(labels, label(one, object.get("name").getAsString()));
          object.entrySet().forEach(e -> counter(singular(name) + "_" + e.getKey(), e.getKey(), named, e.getValue()));
        }
      } else if (value.getAsJsonPrimitive().isNumber()) {
        boolean gauge = key.endsWith("_ms") || GAUGES.contains(key);
        sample(gauge ? name : name + "_total", gauge ? "gauge" : "counter",
            "The library's counter `" + key + "` since the model was loaded.", "", labels, value.getAsNumber());
      } else if (value.getAsJsonPrimitive().isBoolean()) {
        sample(name, "gauge", "The library's `" + key + "`.", "", labels, value.getAsBoolean() ? 1 : 0);
      }
    }

    private static String named(String key, String one) {
      if (!key.equals("errors") || !one.matches("\\d{1,4}")) return one;
      Status status = Status.of(Integer.parseInt(one));
      return status == Status.UNKNOWN ? one : status.cName();
    }

    private static String singular(String key) {
      return key.endsWith("s") ? key.substring(0, key.length() - 1) : key;
    }

    private static String join(String a, String b) {
      return a.isEmpty() ? b : a + "," + b;
    }

    public String text() {
      return String.join("", metrics.values());
    }
  }
}
