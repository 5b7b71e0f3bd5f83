package scoreservice;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.dpiframe.Dpi;
import org.dpiframe.Endpoint;
import org.dpiframe.Environment;
import org.dpiframe.Status;

/** What an operator wants to know of an endpoint's versions: which one serves, which was refused and why. */
final class Versions {
  /** A version that was to serve and does not; {@code version} 0: it never got a number. */
  record Refusal(long version, String path, String error, String reason) {}

  private static final String FAILED = "dpi_endpoint_failed_loads_total";

  private final JsonObject status;

  private Versions(JsonObject status) {
    this.status = status;
  }

  static Versions of(Endpoint endpoint) {
    return new Versions(JsonParser.parseString(endpoint.statusJson()).getAsJsonObject());
  }

  long current() {
    return status.get("version").getAsLong();
  }

  String digest() {
    return status.get("digest").getAsString();
  }

  /**
   * The newest version above the current one that was refused or is held back, or else the last load where that failed; null when there is
   * none. A version that serves later clears it.
   */
  Refusal refused() {
    Refusal newest = refusal(status.getAsJsonObject("last_load"));
    for (JsonObject file : waiting()) {
      Refusal other = refusal(file);
      if (newest == null || other.version > newest.version) newest = other;
    }
    return newest;
  }

  private static Refusal refusal(JsonObject file) {
    int code = file.get("code").getAsInt();
    if (code == 0) return null;
    return new Refusal(file.get("version").getAsLong(), file.get("path").getAsString(), Status.of(code).cName(), file.get("error").getAsString());
  }

  /** Files of the followed folder that would serve, were they not refused. */
  private List<JsonObject> waiting() {
    List<JsonObject> files = new ArrayList<>();
    if (!status.has("follows")) return files;
    for (JsonElement file : status.getAsJsonObject("follows").getAsJsonArray("refused")) {
      if (file.getAsJsonObject().get("version").getAsLong() > current()) files.add(file.getAsJsonObject());
    }
    return files;
  }

  /**
   * Shows which version serves, since when, and what became of others. A failure is there from the start with 0, so that Prometheus sees the
   * first one too.
   */
  void show(Metrics.Page page) {
    JsonObject build = JsonParser.parseString(Dpi.buildInfoJson()).getAsJsonObject();
    String labels = Metrics.label("version", build.get("version").getAsString()) + "," + Metrics.label("compiler", build.get("compiler").getAsString());
    page.sample("dpi_build_info", "gauge", "The library, always 1.", "", labels, 1);
    page.sample("dpi_model_info", "gauge", "The current version, always 1.", "",
        Metrics.label("version", "" + current()) + "," + Metrics.label("digest", digest()), 1);
    page.sample("dpi_model_version", "gauge", "Number of the current version.", "", "", current());
    page.sample("dpi_model_since_seconds", "gauge", "When the current version began to serve, in seconds since 1970.", "", "",
        status.get("since_ms").getAsLong() / 1e3);
    String swaps = "dpi_endpoint_swaps_total";
    String help = "Changes of the current version, by a load or a rollback.";
    page.sample(swaps, "counter", help, "", Metrics.label("kind", "load"), status.get("loads").getAsLong());
    page.sample(swaps, "counter", help, "", Metrics.label("kind", "rollback"), status.get("rollbacks").getAsLong());
    JsonObject failures = status.has("failures") ? status.getAsJsonObject("failures") : new JsonObject();
    for (Status s : Status.values()) {
      if (s.code() <= 0) continue;
      JsonElement count = failures.get("" + s.code());
      page.sample(FAILED, "counter", "Versions that were to be loaded and were refused, each try.", "", Metrics.label("error", s.cName()),
          count != null ? count.getAsLong() : 0);
    }
    page.sample("dpi_endpoint_refused", "gauge", "Files of the followed folder above the current version that were refused or are held back.", "", "",
        waiting().size());
    boolean unreadable = status.has("follows") && status.getAsJsonObject("follows").get("code").getAsInt() != 0;
    page.sample("dpi_endpoint_folder_unreadable", "gauge", "1 while the followed folder cannot be read.", "", "", unreadable ? 1 : 0);
  }

  /** Writes what the library says of loads, swaps and refusals to standard error, until the process ends. */
  static void logMessages() {
    Environment environment = Environment.process().logLevel(System.Logger.Level.INFO);
    Thread thread = new Thread(() -> {
      try {
        for (;; Thread.sleep(100)) {
          for (var m = environment.pollLog(); m != null; m = environment.pollLog()) {
            Log.line(m.level().name().toLowerCase(Locale.ROOT) + ": " + m.text());
          }
        }
      } catch (InterruptedException e) {
        // The process ends.
      }
    }, "messages");
    thread.setDaemon(true);
    thread.start();
  }
}
