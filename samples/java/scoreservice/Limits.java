package scoreservice;

/** What one request may take, and what all of them together. */
final class Limits {
  static final int BODY = 2 << 20;
  static final int ROWS = 4096;
  static final int VALUES = 1 << 18;  // texts and numbers of one request
  static final int HEADER = 32 << 10;
  static final int REQUESTS = 64;  // to /score, from the end of the head until the answer is written
  static final int CONNECTIONS = 1024;  // and threads: each serves a request, or waits for a client to send or take one

  private Limits() {}
}
