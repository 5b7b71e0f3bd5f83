package scoreservice;

import scoreservice.Problem.Cause;

/** Refuses, before anything is read, what Gson's reader takes although JSON has no such thing, and nesting that takes its memory. */
final class StrictText {
  private static final int DEEPEST = 10_000;  // as encoding/json of Go

  private StrictText() {}

  static void check(byte[] text) throws Problem {
    int depth = 0;
    for (int i = 0; i < text.length; i++) {
      switch (text[i]) {
        case '"':
          i = skipString(text, i + 1);
          break;
        case '{':
        case '[':
          if (++depth > DEEPEST) throw new Problem(Cause.JSON, "the JSON nests deeper than " + DEEPEST);
          break;
        case '}':
        case ']':
          depth--;
          break;
        default:
          checkOutside(text, i);
      }
    }
  }

  /** Gson reads True and NULL, and skips a byte order mark. */
  private static void checkOutside(byte[] text, int i) throws Problem {
    byte b = text[i];
    boolean exponent = b == 'E' && i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9';
    if (b < 0 || b >= 'A' && b <= 'Z' && !exponent) throw unexpected(i);
  }

  /** Gson reads control characters, an escaped ' and an escaped end of line; returns the place of the closing quote. */
  private static int skipString(byte[] text, int from) throws Problem {
    for (int i = from; i < text.length; i++) {
      byte b = text[i];
      if (b == '"') return i;
      if (b >= 0 && b < ' ') throw unexpected(i);
      if (b == '\\' && (++i == text.length || "\"\\/bfnrtu".indexOf(text[i]) < 0)) throw unexpected(i);
    }
    throw new Problem(Cause.JSON, "a text has no end");
  }

  private static Problem unexpected(int at) {
    return new Problem(Cause.JSON, "no JSON: unexpected character at byte " + at);
  }
}
