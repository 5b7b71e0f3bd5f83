package scoreservice;

import com.google.gson.stream.JsonReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import scoreservice.Problem.Cause;

/**
 * Where the members of a request, or of one of its users, lie in a text that is known to be JSON: a user's shared row has to be read before its
 * rows, in whatever order they stand. Commas and colons tell nothing then.
 */
final class Members {
  /** Bytes [from, to) of the text. */
  record Part(byte[] text, int from, int to) {
    JsonReader reader() {
      var bytes = new ByteArrayInputStream(text, from, to - from);
      return new JsonReader(new InputStreamReader(bytes, StandardCharsets.UTF_8.newDecoder()));
    }

    boolean isNull() {
      return text[from] == 'n';
    }
  }

  /** null: not there, or null instead of a shared row. */
  Part shared;
  Part rows;
  Part users;

  private final byte[] text;
  private int at;

  private Members(Part whole) {
    text = whole.text();
    at = whole.from();
  }

  /** {@code request}: the text may have users. */
  static Members of(Part whole, boolean request) throws IOException, Problem {
    Members m = new Members(whole);
    if (!m.take('{')) throw RowReader.expected();
    Set<String> seen = new HashSet<>();
    while (!m.take('}')) {
      String key = m.value().reader().nextString();
      if (!key.equals("rows") && !key.equals("shared") && !(request && key.equals("users"))) {
        throw new Problem(Cause.JSON, "unknown member '" + key + "'; expected rows, and shared perhaps, or users");
      }
      if (!seen.add(key)) throw new Problem(Cause.JSON, key + " is there twice");
      Part part = m.value();
      if (key.equals("rows")) m.rows = part;
      if (key.equals("users")) m.users = part;
      if (key.equals("shared") && !part.isNull()) m.shared = part;
    }
    return m;
  }

  /** Goes through the elements of a list. */
  static final class Elements {
    private final Members in;

    Elements(Part list) throws Problem {
      in = new Members(list);
      if (!in.take('[')) throw RowReader.expected();
    }

    /** null at the end. */
    Part next() {
      return in.take(']') ? null : in.value();
    }
  }

  private byte peek() {
    while (" \t\r\n,:".indexOf(text[at]) >= 0) at++;
    return text[at];
  }

  private boolean take(char what) {
    if (peek() != what) return false;
    at++;
    return true;
  }

  /** Goes past a value, whatever it nests. */
  private Part value() {
    byte first = peek();
    int from = at;
    if (first == '"') {
      pastText();
    } else if (first == '{' || first == '[') {
      pastNested();
    } else {
      while (" \t\r\n,]}".indexOf(text[at]) < 0) at++;
    }
    return new Part(text, from, at);
  }

  private void pastNested() {
    int depth = 0;
    do {
      byte next = peek();
      if (next == '"') {
        pastText();
        continue;
      }
      if (next == '{' || next == '[') depth++;
      if (next == '}' || next == ']') depth--;
      at++;
    } while (depth > 0);
  }

  private void pastText() {
    for (at++; text[at] != '"'; at++) {
      if (text[at] == '\\') at++;
    }
    at++;
  }
}
