import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.dpiframe.Control;
import org.dpiframe.DpiException;
import org.dpiframe.Model;
import org.dpiframe.Rows;
import org.dpiframe.Scores;

/**
 * Scores raw JSON rows over HTTP, with the JDK's own server and Gson for the JSON.
 *
 * <pre>
 * POST /score    {"rows": [{"age": 37, "workclass": "Private", ...}, ...]}        -> {"scores": [[0.12], ...]}
 *                with "shared": {...} the features of the one user of all rows
 * GET  /health   200 while it takes requests, 503 once it is stopping
 * GET  /metrics  counters in Prometheus' text format
 * </pre>
 *
 * <p>A feature that a row leaves out is missing. A refused row is status 400 with the row and the feature. On SIGTERM it
 * answers what it has accepted, then ends.
 */
public final class ScoringService {
  private static final int MAX_BODY = 8 << 20;
  private static final int MAX_ROWS = 4096;
  private static final Duration TIMEOUT = Duration.ofSeconds(2);

  /** What one request needs and the next can use again. */
  private record Worker(Rows rows, Scores scores, Control control) {}

  private record Request(Map<String, Object> shared, List<Map<String, Object>> rows) {}

  private final Gson gson = new Gson();
  private final Model model;
  private final HttpServer server;
  private final ExecutorService threads;
  private final ConcurrentLinkedQueue<Worker> idle = new ConcurrentLinkedQueue<>();
  private final AtomicInteger running = new AtomicInteger();
  private final AtomicLong requests = new AtomicLong();
  private final AtomicLong refused = new AtomicLong();
  private final AtomicLong rowsScored = new AtomicLong();
  private final AtomicLong nanos = new AtomicLong();
  private volatile boolean stopping;

  private ScoringService(Model model, int port, int threadCount) throws IOException {
    this.model = model;
    threads = Executors.newFixedThreadPool(threadCount);
    server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
    server.setExecutor(threads);
    server.createContext("/score", e -> handle(e, this::score));
    server.createContext("/health", e -> handle(e, x -> new Answer(stopping ? 503 : 200, stopping ? "stopping" : "ok")));
    server.createContext("/metrics", e -> handle(e, x -> new Answer(200, metrics())));
  }

  private record Answer(int status, String body) {}

  private interface Handler {
    Answer answer(HttpExchange exchange) throws IOException;
  }

  private void handle(HttpExchange exchange, Handler handler) {
    running.incrementAndGet();
    try (exchange) {
      Answer answer = safely(exchange, handler);
      byte[] body = answer.body().getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set(
          "Content-Type", answer.body().startsWith("{") ? "application/json" : "text/plain; charset=utf-8");
      exchange.sendResponseHeaders(answer.status(), body.length);
      exchange.getResponseBody().write(body);
    } catch (IOException e) {
      System.err.println("lost a client: " + e);
    } finally {
      running.decrementAndGet();
    }
  }

  private Answer safely(HttpExchange exchange, Handler handler) throws IOException {
    try {
      return handler.answer(exchange);
    } catch (DpiException.InvalidArgument | DpiException.NotFound e) {
      return problem(400, e.getMessage(), e.row(), featureName(e.feature()));
    } catch (DpiException.Timeout | DpiException.QueueFull | DpiException.Closed e) {
      return problem(503, e.getMessage(), -1, null);
    } catch (JsonParseException | IllegalArgumentException e) {
      return problem(400, e.getMessage(), -1, null);
    } catch (RuntimeException e) {
      System.err.println("internal error: " + e);
      return problem(500, "internal error", -1, null);
    }
  }

  private Answer problem(int status, String text, long row, String feature) {
    refused.incrementAndGet();
    Map<String, Object> fields = new java.util.LinkedHashMap<>();
    fields.put("error", text);
    if (row >= 0) fields.put("row", row);
    if (feature != null) fields.put("feature", feature);
    return new Answer(status, gson.toJson(fields));
  }

  private String featureName(long index) {
    return index < 0 ? null : model.schema().features().get((int) index).name();
  }

  private Answer score(HttpExchange exchange) throws IOException {
    if (!exchange.getRequestMethod().equals("POST")) return problem(405, "POST only", -1, null);
    byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY + 1);
    if (body.length > MAX_BODY) return problem(413, "the body exceeds " + MAX_BODY + " bytes", -1, null);
    Request request = gson.fromJson(new String(body, StandardCharsets.UTF_8), Request.class);
    if (request == null || request.rows() == null) throw new JsonParseException("expected {\"rows\": [{...}, ...]}");
    if (request.rows().size() > MAX_ROWS) throw new JsonParseException("more than " + MAX_ROWS + " rows");
    long started = System.nanoTime();
    Worker worker = idle.poll();
    if (worker == null) worker = new Worker(model.newRows(), model.newScores(MAX_ROWS), new Control());
    try {
      fill(worker.rows().clear(), request);
      worker.rows().predict(worker.scores(), worker.control().timeout(TIMEOUT));
      requests.incrementAndGet();
      rowsScored.addAndGet(worker.scores().rows());
      return new Answer(200, answerText(worker.scores()));
    } finally {
      idle.offer(worker);
      nanos.addAndGet(System.nanoTime() - started);
    }
  }

  private static void fill(Rows rows, Request request) {
    if (request.shared() != null) rows.beginShared().setAll(request.shared());
    for (Map<String, Object> row : request.rows()) {
      rows.begin();
      if (row != null) rows.setAll(row);
    }
  }

  /** Java's shortest text of a float reads back as the same float. */
  private static String answerText(Scores scores) {
    StringBuilder text = new StringBuilder("{\"scores\":[");
    for (int r = 0; r < scores.rows(); r++) {
      text.append(r > 0 ? ",[" : "[");
      for (int h = 0; h < scores.heads(); h++) {
        float score = scores.get(r, h);
        text.append(h > 0 ? "," : "").append(Float.isFinite(score) ? Float.toString(score) : "null");
      }
      text.append(']');
    }
    return text.append("]}").toString();
  }

  private String metrics() {
    List<String> lines = new ArrayList<>();
    lines.add("dpi_requests_total " + requests.get());
    lines.add("dpi_requests_refused_total " + refused.get());
    lines.add("dpi_rows_total " + rowsScored.get());
    lines.add("dpi_score_seconds_total " + nanos.get() / 1e9);
    lines.add("dpi_model_host_bytes " + model.info().hostBytes());
    lines.add("# " + model.countersJson());
    return String.join("\n", lines) + "\n";
  }

  /** Answers what has been accepted, then lets go of everything. */
  private void stop() {
    stopping = true;
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
    try {
      TimeUnit.MILLISECONDS.sleep(200);  // a load balancer sees /health, requests on their way arrive
      while (running.get() > 0 && System.nanoTime() < deadline) TimeUnit.MILLISECONDS.sleep(10);
      server.stop(0);
      threads.shutdown();
      threads.awaitTermination(10, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    for (Worker w = idle.poll(); w != null; w = idle.poll()) w.rows().close();
    model.close();
    System.out.println("stopped after " + requests.get() + " requests");
  }

  public static void main(String[] args) throws IOException {
    if (args.length < 1 || args.length > 2) {
      System.err.println("usage: ScoringService BUNDLE [PORT]");
      System.exit(2);
    }
    int threads = Math.max(4, Runtime.getRuntime().availableProcessors());
    Model model = Model.builder().path(args[0]).warmUpRows(64).load();
    ScoringService service = new ScoringService(model, args.length > 1 ? Integer.parseInt(args[1]) : 8080, threads);
    Runtime.getRuntime().addShutdownHook(new Thread(service::stop));
    service.server.start();
    System.out.println("listening on http://127.0.0.1:" + service.server.getAddress().getPort());
  }
}
