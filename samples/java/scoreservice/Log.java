package scoreservice;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;

/** Lines to standard error, each with the local time, as Go's package log writes them. */
final class Log {
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy/MM/dd HH:mm:ss ");

  private Log() {}

  static void line(String text) {
    System.err.println(TIME.format(LocalDateTime.now()) + text);
  }
}
