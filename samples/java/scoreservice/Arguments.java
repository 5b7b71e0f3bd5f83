package scoreservice;

import java.net.InetSocketAddress;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The command line: {@code -name value} pairs. */
final class Arguments {
  String bundle;
  String follow;
  String device = "auto";
  boolean batch;
  /** Options of the library for every version, such as store.redis_address. */
  final Map<String, String> model = new LinkedHashMap<>();
  int warmUp = 64;
  int clientSeconds = 5;
  int scoringMillis = 2000;
  int graceSeconds = 10;
  private String listen = "127.0.0.1:8080";

  private static final String USAGE = String.join("\n",
      "usage: scoreservice.ScoringService -bundle FILE | -follow FOLDER [-name value]...",
      "  -bundle          the model to begin with",
      "  -follow          a folder: its newest v<number>.h5 is loaded soon after it comes there by rename",
      "  -listen          address (127.0.0.1:8080); port 0 takes a free one",
      "  -device          cpu, cuda or auto",
      "  -batch           on: concurrent requests are scored together (off)",
      "  -option          name=value, repeated: options of the library for every version, such as store.redis_address=HOST:PORT",
      "  -warm-up         rows of the warm-up batches (64)",
      "  -client-seconds  a client's time to send a request, and to take the answer (5)",
      "  -scoring-millis  time to decode and score, from the end of a request's body (2000)",
      "  -grace-seconds   time for what was begun, at shutdown (10)");

  /** Ends the program when they are wrong. */
  static Arguments read(String[] args) {
    Arguments a = new Arguments();
    if (List.of(args).stream().anyMatch(Set.of("-help", "--help", "-h")::contains)) {
      System.out.println(USAGE);
      System.exit(0);
    }
    try {
      for (int i = 0; i < args.length; i += 2) a.set(args[i], i + 1 < args.length ? args[i + 1] : null);
      a.listen();
      if (a.bundle != null || a.follow != null) return a;
      System.err.println("wrong arguments: neither -bundle nor -follow is given");
    } catch (IllegalArgumentException e) {
      System.err.println("wrong arguments: " + e.getMessage());
    }
    System.err.println(USAGE);
    System.exit(2);
    return a;
  }

  private void set(String name, String value) {
    if (value == null) throw new IllegalArgumentException("option " + name + " has no value");
    switch (name) {
      case "-bundle" -> bundle = value;
      case "-follow" -> follow = value;
      case "-listen" -> listen = value;
      case "-device" -> device = value;
      case "-batch" -> batch = isOn(name, value);
      case "-option" -> option(name, value);
      case "-warm-up" -> warmUp = whole(name, value);
      case "-client-seconds" -> clientSeconds = whole(name, value);
      case "-scoring-millis" -> scoringMillis = whole(name, value);
      case "-grace-seconds" -> graceSeconds = whole(name, value);
      default -> throw new IllegalArgumentException("unknown option " + name);
    }
  }

  private void option(String name, String value) {
    int at = value.indexOf('=');
    if (at < 0) throw new IllegalArgumentException("option " + name + ": '" + value + "' is not name=value");
    model.put(value.substring(0, at), value.substring(at + 1));
  }

  InetSocketAddress listen() {
    int colon = listen.lastIndexOf(':');
    if (colon < 0) throw new IllegalArgumentException("option -listen: '" + listen + "' is no ADDRESS:PORT");
    return new InetSocketAddress(listen.substring(0, colon), whole("-listen", listen.substring(colon + 1)));
  }

  private static boolean isOn(String name, String value) {
    if (!value.equals("on") && !value.equals("off")) throw new IllegalArgumentException("option " + name + ": '" + value + "' is neither on nor off");
    return value.equals("on");
  }

  private static int whole(String name, String value) {
    try {
      return Integer.parseInt(value);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException("option " + name + ": '" + value + "' is no whole number");
    }
  }
}
