package scoreservice;

import java.net.InetSocketAddress;

/** The command line: {@code -name value} pairs. */
final class Arguments {
  String bundle;
  String follow;
  String device = "auto";
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
      "  -warm-up         rows of the warm-up batches (64)",
      "  -client-seconds  a client's time to send a request, and to take the answer (5)",
      "  -scoring-millis  time to decode and score, from the end of a request's body (2000)",
      "  -grace-seconds   time for what was begun, at shutdown (10)");

  /** Ends the program when they are wrong. */
  static Arguments read(String[] args) {
    Arguments a = new Arguments();
    try {
      for (int i = 0; i < args.length; i += 2) a.set(args[i], args[i + 1]);
      if ((a.bundle != null || a.follow != null) && a.listen().getPort() >= 0) return a;
    } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
      System.err.println("wrong arguments: " + e.getMessage());
    }
    System.err.println(USAGE);
    System.exit(2);
    return a;
  }

  private void set(String name, String value) {
    switch (name) {
      case "-bundle" -> bundle = value;
      case "-follow" -> follow = value;
      case "-listen" -> listen = value;
      case "-device" -> device = value;
      case "-warm-up" -> warmUp = Integer.parseInt(value);
      case "-client-seconds" -> clientSeconds = Integer.parseInt(value);
      case "-scoring-millis" -> scoringMillis = Integer.parseInt(value);
      case "-grace-seconds" -> graceSeconds = Integer.parseInt(value);
      default -> throw new IllegalArgumentException("unknown option " + name);
    }
  }

  InetSocketAddress listen() {
    int colon = listen.lastIndexOf(':');
    return new InetSocketAddress(listen.substring(0, colon), Integer.parseInt(listen.substring(colon + 1)));
  }
}
