package scoreservice;

import com.google.gson.Gson;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.dpiframe.Batcher;
import org.dpiframe.Dpi;
import org.dpiframe.DpiException;
import org.dpiframe.Endpoint;
import org.dpiframe.Model;
import org.dpiframe.Options;
import org.dpiframe.Schema;
import org.dpiframe.Scores;
import scoreservice.Problem.Cause;

/**
 * Scores raw JSON rows over HTTP, with the JDK's own server and Gson for the JSON. The service in go/scoreservice does the same;
 * services.md says what. On SIGTERM it answers what was begun, then ends.
 */
public final class ScoringService {
  private static final String JSON = "application/json";

  private record Answer(int status, String type, String body) {}

  private interface Handler {
    Answer answer(HttpExchange exchange) throws Problem, IOException, InterruptedException;
  }

  private final Gson gson = new Gson();
  private final Endpoint endpoint;
  private final Batcher batcher;  // null: each request is scored by itself
  private final Schema schema;  // heads, and features with their names, are the same in every version
  private final String heads;
  private final HttpServer server;
  private final Metrics metrics = new Metrics();
  private final BlockingQueue<Worker> workers;
  private final Semaphore places = new Semaphore(Limits.REQUESTS);
  private final AtomicInteger open = new AtomicInteger();  // requests that the server has seen a byte of
  private final Arguments arguments;
  private volatile boolean stopping;

  private ScoringService(Endpoint endpoint, Arguments arguments) throws IOException {
    this.endpoint = endpoint;
    try (Model model = endpoint.acquire()) {
      schema = model.schema();
    }
    heads = gson.toJson(schema.heads());
    this.arguments = arguments;
    Options roomy = new Options().set("batch.max_rows", "1024").set("batch.queue", "16");  // all requests may wait
    batcher = arguments.batch ? endpoint.newBatcher(roomy) : null;
    // Those that wait for a chunk are what the next one is made of.
    int count = arguments.batch ? Limits.REQUESTS : 2 * Runtime.getRuntime().availableProcessors();
    workers = new ArrayBlockingQueue<>(count, true);
    for (int i = 0; i < count; i++) workers.add(new Worker(endpoint, batcher));
    limitClients(arguments);
    server = HttpServer.create(arguments.listen(), 128);
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(0, Limits.CONNECTIONS, 10, TimeUnit.SECONDS, new SynchronousQueue<>());
    server.setExecutor(request -> execute(threads, request));
    server.createContext("/", this::handle);
  }

  /** The server reads these once, when it is first used. Without nodelay every answer waits for the client's delayed ACK. */
  private static void limitClients(Arguments arguments) {
    int seconds = arguments.clientSeconds;
    int scoringSeconds = (arguments.scoringMillis + 999) / 1000;
    System.setProperty("sun.net.httpserver.nodelay", "true");
    System.setProperty("sun.net.httpserver.maxReqTime", "" + seconds);
    System.setProperty("sun.net.httpserver.maxRspTime", "" + (seconds + scoringSeconds));
    System.setProperty("sun.net.httpserver.idleInterval", "30");
    System.setProperty("sun.net.httpserver.clockTick", "1000");  // looks every so many ms for who is idle
    System.setProperty("sun.net.httpserver.maxIdleConnections", "" + Limits.CONNECTIONS);
    System.setProperty("sun.net.httpserver.maxReqHeaderSize", "" + Limits.HEADER);
    System.setProperty("jdk.httpserver.maxConnections", "" + Limits.CONNECTIONS);
  }

  /** The server reads even a request's head on one of these threads. It closes the connection when none is left. */
  private void execute(ThreadPoolExecutor threads, Runnable request) {
    open.incrementAndGet();
    try {
      threads.execute(() -> {
        try {
          request.run();
        } finally {
          open.decrementAndGet();
        }
      });
    } catch (RejectedExecutionException e) {
      open.decrementAndGet();
      metrics.refused(Cause.OVERLOAD);
      throw e;
    }
  }

  private void handle(HttpExchange exchange) {
    long started = System.nanoTime();
    String path = exchange.getRequestURI().getPath();
    boolean scoring = path.equals("/score");
    boolean admitted = scoring && places.tryAcquire();
    try (exchange) {
      Answer answer = safely(exchange, handler(exchange, path, admitted));
      if (answer.status() == 0) return;
      boolean known = scoring || path.equals("/health") || path.equals("/metrics");
      metrics.answered(known ? path : "other", answer.status(), System.nanoTime() - started);
      write(exchange, answer);
    } catch (IOException e) {
      // The client is gone.
    } finally {
      if (admitted) places.release();
    }
  }

  private Handler handler(HttpExchange exchange, String path, boolean admitted) {
    String method = path.equals("/score") ? "POST" : "GET";
    Handler handler;
    switch (path) {
      case "/score":
        handler = this::score;
        break;
      case "/health":
        handler = e -> health();
        break;
      case "/metrics":
        String type = "text/plain; version=0.0.4; charset=utf-8";
        handler = e -> new Answer(200, type, metrics.text(Limits.REQUESTS - places.availablePermits(), Versions.of(endpoint)));
        break;
      default:
        return e -> refuse(Cause.PATH, "no such path");
    }
    if (!exchange.getRequestMethod().equals(method)) {
      exchange.getResponseHeaders().set("Allow", method);
      return e -> refuse(Cause.METHOD, method + " only");
    }
    if (path.equals("/score") && !admitted) {
      return e -> refuse(Cause.OVERLOAD, Limits.REQUESTS + " requests are under way already");
    }
    return handler;
  }

  private static Answer refuse(Cause cause, String text) throws Problem {
    throw new Problem(cause, text);
  }

  private Answer safely(HttpExchange exchange, Handler handler) {
    Problem problem;
    try {
      return handler.answer(exchange);
    } catch (Problem e) {
      problem = e;
    } catch (IOException | InterruptedException e) {
      problem = new Problem(Cause.CLIENT, "the body did not arrive: " + e);
    } catch (DpiException e) {
      problem = ofLibrary(e);
    } catch (RowReader.OfUser e) {
      problem = ofLibrary(e.error).of(e.user);
    } catch (RuntimeException | Error e) {
      problem = internal(e);
    }
    metrics.refused(problem.cause);
    return new Answer(problem.cause.status, JSON, gson.toJson(problem.fields()) + "\n");
  }

  /** Tells the client's input from overload and from a fault of ours, whose text the client does not see. */
  private Problem ofLibrary(DpiException e) {
    Cause cause = null;
    if (e instanceof DpiException.InvalidArgument || e instanceof DpiException.NotFound) cause = Cause.VALUE;
    if (e instanceof DpiException.Timeout) cause = Cause.TIMEOUT;
    if (e instanceof DpiException.QueueFull) cause = Cause.OVERLOAD;
    if (e instanceof DpiException.Closed) cause = Cause.STOPPING;
    if (e instanceof DpiException.Io) cause = Cause.UNAVAILABLE;
    if (cause == null) return internal(e);
    if (cause == Cause.UNAVAILABLE) return logged(e, cause, "rows of the model cannot be read now");
    if (cause == Cause.TIMEOUT) return logged(e, cause, "no score in time");
    String feature = e.feature() < 0 ? null : schema.features().get((int) e.feature()).name();
    return new Problem(cause, e.getMessage(), e.inShared() ? -1 : e.row(), feature);
  }

  /** A text of the library may name files and servers: only the log has it. */
  private static Problem logged(DpiException e, Cause cause, String text) {
    Log.line("not scored: " + e.getMessage());
    return new Problem(cause, text);
  }

  private static Problem internal(Throwable e) {
    Log.line("internal error: " + e);
    return new Problem(Cause.INTERNAL, "internal error");
  }

  private void write(HttpExchange exchange, Answer answer) throws IOException {
    byte[] body = answer.body().getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", answer.type());
    if (answer.status() == 503) exchange.getResponseHeaders().set("Retry-After", "1");
    if (stopping || answer.status() == 413) exchange.getResponseHeaders().set("Connection", "close");
    boolean empty = exchange.getRequestMethod().equals("HEAD");
    exchange.sendResponseHeaders(answer.status(), empty ? -1 : body.length);
    if (empty) return;
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(body);
    }
  }

  private Answer score(HttpExchange exchange) throws Problem, IOException, InterruptedException {
    byte[] body = readBody(exchange);
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(arguments.scoringMillis);
    Worker worker = workers.poll(arguments.scoringMillis, TimeUnit.MILLISECONDS);
    if (worker == null) throw new Problem(Cause.TIMEOUT, "no worker came free in time");
    try {
      worker.score(body, deadline);
      exchange.getResponseHeaders().set("Model-Version", "" + worker.scores.version());
      return new Answer(200, JSON, answerText(worker.scores));
    } finally {
      workers.add(worker);
    }
  }

  /** Lets a client that sends everything before it reads see that the body is too large, unless it sends far more. */
  private static byte[] readBody(HttpExchange exchange) throws Problem, IOException {
    Problem tooLarge = new Problem(Cause.TOO_LARGE, "the body exceeds " + Limits.BODY + " bytes");
    String length = exchange.getRequestHeaders().getFirst("Content-Length");
    if (length != null && Long.parseLong(length) > 2L * Limits.BODY) throw tooLarge;  // the server has checked the number
    InputStream in = exchange.getRequestBody();
    byte[] body = in.readNBytes(Limits.BODY + 1);
    if (body.length <= Limits.BODY) return body;
    byte[] rest = new byte[8192];
    for (int read = 0, n = 0; n >= 0 && read < Limits.BODY; read += n) n = in.read(rest);
    throw tooLarge;
  }

  /** Java's text of a float reads back as the same float; JSON has no text for a score that is not finite. */
  private String answerText(Scores scores) {
    StringBuilder text = new StringBuilder("{\"heads\":").append(heads).append(",\"scores\":[");
    for (int r = 0; r < scores.rows(); r++) {
      text.append(r > 0 ? ",[" : "[");
      for (int h = 0; h < scores.heads(); h++) {
        float score = scores.get(r, h);
        text.append(h > 0 ? "," : "").append(Float.isFinite(score) ? Float.toString(score) : "null");
      }
      text.append(']');
    }
    return text.append("]}\n").toString();
  }

  /**
   * 200 while requests are taken and 503 from the moment of stopping, so that a balancer turns away first. A version that was refused does not
   * make it another status: the one before serves.
   */
  private Answer health() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("status", stopping ? "stopping" : "ok");
    try (Model model = endpoint.acquire()) {
      fields.put("device", model.info().device().name().toLowerCase(java.util.Locale.ROOT));
    }
    Versions versions = Versions.of(endpoint);
    fields.put("version", versions.current());
    fields.put("digest", versions.digest());
    fields.put("library", Dpi.version());
    if (versions.refused() != null) fields.put("refused", versions.refused());
    return new Answer(stopping ? 503 : 200, JSON, gson.toJson(fields) + "\n");
  }

  /** Answers what was begun, then lets go of everything. */
  private void stop() {
    stopping = true;
    Log.line("stopping: requests that were begun are answered, for at most " + arguments.graceSeconds + " s");
    boolean finished = false;
    try {
      TimeUnit.MILLISECONDS.sleep(200);  // a balancer sees /health, requests on their way arrive
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(arguments.graceSeconds);
      while (open.get() > 0 && System.nanoTime() < deadline) TimeUnit.MILLISECONDS.sleep(10);
      finished = open.get() == 0;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    server.stop(0);
    if (finished) {
      if (batcher != null) batcher.close();
      for (Worker worker : workers) worker.close();
      endpoint.close();
    }
    Log.line(finished ? "stopped: every request that was begun is answered"
        : "stopped: requests are unanswered after " + arguments.graceSeconds + " s");
    Runtime.getRuntime().halt(finished ? 0 : 1);  // else the status would be SIGTERM's
  }

  /** Brings workers that no request uses to a new version soon, so that the memory of the old one is given back. */
  private void renewIdle() {
    long seen = endpoint.version();
    try {
      while (!stopping) {
        TimeUnit.MILLISECONDS.sleep(100);
        if (endpoint.version() == seen) continue;
        seen = endpoint.version();
        for (int i = workers.size() + workers.remainingCapacity(); i > 0; i--) renewOne();
      }
    } catch (InterruptedException | DpiException.Closed e) {
      // The service ends.
    }
  }

  private void renewOne() throws InterruptedException {
    Worker worker = workers.take();
    try {
      worker.renew();
    } catch (DpiException e) {
      // Its next request tries again.
    } finally {
      workers.add(worker);
    }
  }

  /** An endpoint that has a version. */
  private static Endpoint open(Arguments arguments) {
    // One row's score that is not finite is null in the answer and does not refuse the others.
    Options options = new Options().set("device", arguments.device).set("nonfinite", "return");
    arguments.model.forEach(options::set);
    Endpoint endpoint = new Endpoint("scoreservice", options);
    endpoint.set("warm_up_rows", "" + arguments.warmUp);
    if (arguments.bundle != null) endpoint.load(arguments.bundle);
    if (arguments.follow != null) {
      endpoint.follow(arguments.follow);
      if (endpoint.version() == 0) Log.line("waiting for a version in " + arguments.follow);
      endpoint.await(1, Duration.ofDays(365));
    }
    return endpoint;
  }

  /** Ends the program, saying why, when there is no model to begin with or the address is taken. */
  private static ScoringService start(Arguments arguments) {
    try {
      return new ScoringService(open(arguments), arguments);
    } catch (IOException e) {
      InetSocketAddress at = arguments.listen();
      Log.line("option -listen: " + at.getHostString() + ":" + at.getPort() + ": " + e.getMessage());
    } catch (RuntimeException | Error e) {
      Log.line(e instanceof DpiException ? e.getMessage() : "internal error: " + e);
    }
    Runtime.getRuntime().halt(1);  // without the hook of main
    return null;
  }

  /** What SIGTERM does; null: nothing is served yet. */
  private static void stop(ScoringService service) {
    if (service != null) {
      service.stop();
    } else {
      Log.line("stopped: no version came to serve");
      Runtime.getRuntime().halt(0);
    }
  }

  public static void main(String[] args) {
    Arguments arguments = Arguments.read(args);
    Versions.logMessages();
    AtomicReference<ScoringService> running = new AtomicReference<>();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(running.get())));
    ScoringService service = start(arguments);
    running.set(service);
    Thread renewing = new Thread(service::renewIdle, "renew");
    renewing.setDaemon(true);
    renewing.start();
    service.server.start();
    InetSocketAddress at = service.server.getAddress();
    Log.line("listening on http://" + at.getAddress().getHostAddress() + ":" + at.getPort());
  }
}
