package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The sample programs: the service under a bounded load answers every request with the C API's scores. */
class ServiceTest {
  private static final int ROWS = 160;
  private static final int PER_REQUEST = 4;
  private static final int CLIENTS = 8;
  private static final int ROUNDS = 4;

  /** The service's answer. */
  private static final class Answer {
    float[][] scores;
  }

  private final Gson gson = new Gson();
  private final HttpClient client = HttpClient.newHttpClient();

  private static List<String> java(String main, String... args) {
    List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(),
        "-Ddpi.library.path=" + System.getProperty("dpi.test.lib"), "-cp", System.getProperty("java.class.path"), main));
    command.addAll(List.of(args));
    return command;
  }

  private HttpResponse<String> get(String url) throws Exception {
    return client.send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
  }

  private HttpResponse<String> post(String url, String body) throws Exception {
    return client.send(HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString(body)).build(),
        HttpResponse.BodyHandlers.ofString());
  }

  @Test
  void smallestProgram() throws Exception {
    String out = Support.run(java("Score", Support.demo("adult_widedeep.h5").toString()));
    String c = Support.run(List.of(Support.BIN.resolve("score_batch").toString(), Support.demo("adult_widedeep.h5").toString()));
    assertEquals(c, out);
  }

  @Test
  void serviceUnderLoad() throws Exception {
    Path part = Files.createTempFile("dpi-rows", ".csv");
    List<String> lines = Files.readAllLines(Support.demo("adult_test.csv")).subList(0, ROWS + 1);
    Files.write(part, lines);
    String bundle = Support.demo("adult_widedeep.h5").toString();
    String[] want = Support.run(List.of(Support.BIN.resolve("score_csv").toString(), bundle, part.toString())).split("\n");
    Files.delete(part);
    List<Map<String, Object>> rows = jsonRows(lines);
    Process service = new ProcessBuilder(java("ScoringService", bundle, "0"))
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (BufferedReader out = new BufferedReader(new InputStreamReader(service.getInputStream()))) {
      String url = out.readLine().replace("listening on ", "");
      assertEquals("ok", get(url + "/health").body());
      load(url, rows, want);
      refusals(url, rows);
      String metrics = get(url + "/metrics").body();
      assertTrue(metrics.contains("dpi_requests_total " + CLIENTS * ROUNDS * (ROWS / PER_REQUEST)), metrics);
      stopDuringARequest(service, url, rows.subList(0, PER_REQUEST), want);
      assertTrue(service.waitFor(20, TimeUnit.SECONDS));
      assertTrue(out.readLine().startsWith("stopped after "));
    } finally {
      service.destroyForcibly();
    }
  }

  /** SIGTERM while half a request is there: health turns, the other half is still answered. */
  private void stopDuringARequest(Process service, String url, List<Map<String, Object>> rows, String[] want) throws Exception {
    byte[] body = gson.toJson(Map.of("rows", rows)).getBytes(StandardCharsets.UTF_8);
    String head = "POST /score HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + body.length + "\r\n\r\n";
    try (Socket socket = new Socket("127.0.0.1", URI.create(url).getPort())) {
      socket.setSoTimeout(20_000);
      OutputStream out = socket.getOutputStream();
      out.write(head.getBytes(StandardCharsets.UTF_8));
      out.write(body, 0, body.length / 2);
      out.flush();
      get(url + "/health");  // the server has met the request before
      service.toHandle().destroy();  // SIGTERM; Process.destroy would close the pipe too
      while (get(url + "/health").statusCode() == 200) Thread.onSpinWait();
      out.write(body, body.length / 2, body.length - body.length / 2);
      out.flush();
      String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertTrue(answer.startsWith("HTTP/1.1 200"), answer);
      Answer scores = gson.fromJson(answer.substring(answer.indexOf("\r\n\r\n") + 4), Answer.class);
      assertEquals(rows.size(), scores.scores.length);
      for (int k = 0; k < rows.size(); k++) assertEquals(Float.parseFloat(want[k]), scores.scores[k][0], 0.0f);
    }
  }

  private static List<Map<String, Object>> jsonRows(List<String> lines) {
    String[] names = lines.get(0).split(",");
    List<Map<String, Object>> rows = new ArrayList<>();
    try (Model model = Support.adult()) {
      for (String line : lines.subList(1, lines.size())) {
        String[] cells = line.split(",", -1);
        Map<String, Object> row = new HashMap<>();
        for (int c = 0; c < names.length; c++) {
          if (!model.schema().has(names[c]) || cells[c].isEmpty()) continue;
          boolean number = model.schema().feature(names[c]).kind() == FeatureKind.NUMERIC;
          row.put(names[c], number ? (Object) Double.valueOf(cells[c]) : cells[c]);
        }
        rows.add(row);
      }
    }
    return rows;
  }

  private void load(String url, List<Map<String, Object>> rows, String[] want) throws Exception {
    ExecutorService clients = Executors.newFixedThreadPool(CLIENTS);
    List<Future<?>> done = new ArrayList<>();
    for (int c = 0; c < CLIENTS; c++) {
      done.add(clients.submit(() -> {
        for (int i = 0; i < ROUNDS * (ROWS / PER_REQUEST); i++) {
          int at = i % (ROWS / PER_REQUEST) * PER_REQUEST;
          HttpResponse<String> r = post(url + "/score", gson.toJson(Map.of("rows", rows.subList(at, at + PER_REQUEST))));
          assertEquals(200, r.statusCode(), r.body());
          Answer answer = gson.fromJson(r.body(), Answer.class);
          assertEquals(PER_REQUEST, answer.scores.length);
          for (int k = 0; k < PER_REQUEST; k++) {
            assertEquals(Float.parseFloat(want[at + k]), answer.scores[k][0], 0.0f, "row " + (at + k));
          }
        }
        return null;
      }));
    }
    for (Future<?> f : done) f.get();
    clients.shutdown();
  }

  private void refusals(String url, List<Map<String, Object>> rows) throws Exception {
    assertEquals(400, post(url + "/score", "{").statusCode());
    assertEquals(400, post(url + "/score", "[]").statusCode());
    assertEquals(400, post(url + "/score", "{\"rows\":[{\"nope\":1}]}").statusCode());
    assertEquals(405, get(url + "/score").statusCode());
    HttpResponse<String> bad =
        post(url + "/score", gson.toJson(Map.of("rows", List.of(rows.get(0), Map.of("age", "old")))));
    assertEquals(400, bad.statusCode());
    assertTrue(bad.body().contains("\"row\":1,\"feature\":\"age\""), bad.body());
  }
}
