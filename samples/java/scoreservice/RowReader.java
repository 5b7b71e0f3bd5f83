package scoreservice;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.dpiframe.DpiException;
import org.dpiframe.Feature;
import org.dpiframe.FeatureKind;
import org.dpiframe.Model;
import org.dpiframe.Rows;
import org.dpiframe.Schema;
import scoreservice.Members.Part;
import scoreservice.Problem.Cause;

/**
 * Fills rows from a request's text without a tree of objects in between, so memory does not depend on what the text nests.
 * A request is {@code {"rows": [{...}, ...], "shared": {...}}}, or has several users with their rows,
 * {@code {"users": [{"shared": {...}, "rows": [{...}, ...]}, ...]}}. Members stand in any order.
 */
final class RowReader {
  private static final int SHARED = -1;
  private static final Pattern PLACE = Pattern.compile("line \\d+ column \\d+");

  /** What the library says of one user of the request's list. */
  static final class OfUser extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final transient DpiException error;
    final int user;

    OfUser(DpiException error, int user) {
      super(null, error, false, false);
      this.error = error;
      this.user = user;
    }
  }

  private final Schema schema;
  private final Rows rows;
  private final int[] given;  // by feature: the last object that gave it

  private JsonReader json;
  private int row;  // that is being read, counted over all users, or SHARED
  private int next;  // row
  private int objects;  // read so far
  private boolean shared;  // the request has shared rows
  private final List<Integer> ends = new ArrayList<>();  // behind the last row of each user of its list
  private int values;  // read so far

  RowReader(Model model, Rows rows) {
    schema = model.schema();
    this.rows = rows;
    given = new int[schema.features().size()];
  }

  /** Library errors pass through. */
  void read(byte[] body) throws Problem {
    StrictText.check(body);
    Arrays.fill(given, 0);
    values = next = objects = 0;
    ends.clear();
    Part whole = new Part(body, 0, body.length);
    try {
      checkJson(whole);
      Members members = Members.of(whole, true);
      if (members.users != null) {
        users(members);
      } else {
        shared = members.shared != null;
        one(members);
      }
    } catch (IOException | NumberFormatException e) {  // not UTF-8, not JSON; Gson's word for a bad \\u
      throw new Problem(Cause.JSON, "no JSON: " + where(e));
    }
  }

  /** Gson's texts speak to programmers of Java; a client needs the place. */
  private static String where(Exception e) {
    if (e instanceof EOFException) return "the text ends too early";
    if (e instanceof CharacterCodingException) return "the text is not UTF-8";
    Matcher place = PLACE.matcher(String.valueOf(e.getMessage()));
    return place.find() ? "unexpected character at " + place.group() : "an escape \\u without four hexadecimal digits";
  }

  static Problem expected() {
    return new Problem(
        Cause.JSON, "expected {\"rows\": [{...}, ...]} or {\"users\": [{\"shared\": {...}, \"rows\": [...]}, ...]}");
  }

  /** Names the user of the request's list whose row the library did not score. */
  RuntimeException blame(DpiException e) {
    if (ends.isEmpty() || e.row() < 0) return e;
    int user = 0;
    while (!e.inShared() && user < ends.size() - 1 && ends.get(user) <= e.row()) user++;
    return new OfUser(e, e.inShared() ? (int) e.row() : user);
  }

  private static void checkJson(Part whole) throws IOException, Problem {
    JsonReader text = whole.reader();
    if (text.peek() != JsonToken.BEGIN_OBJECT) throw expected();
    text.skipValue();
    if (text.peek() != JsonToken.END_DOCUMENT) throw new Problem(Cause.JSON, "something follows the request's JSON");
  }

  /** Every user's shared row, then the rows that belong to it. */
  private void users(Members request) throws IOException, Problem {
    if (request.rows != null || request.shared != null) throw expected();
    Members.Elements list = new Members.Elements(request.users);
    shared = true;
    int user = 0;
    for (Part text = list.next(); text != null; text = list.next(), user++) {
      if (user == Limits.ROWS) throw new Problem(Cause.TOO_LARGE, "more than " + Limits.ROWS + " users");
      try {
        Members members = Members.of(text, false);
        if (members.shared == null) throw new Problem(Cause.JSON, "a user has no shared");
        one(members);
      } catch (Problem e) {
        throw e.of(user);
      } catch (DpiException e) {
        throw new OfUser(e, user);
      }
      ends.add(next);
    }
  }

  /** The rows of one user, or of a request without a list of users. */
  private void one(Members members) throws IOException, Problem {
    if (members.rows == null) throw expected();
    if (members.shared != null) {
      json = members.shared.reader();
      row = SHARED;
      rows.beginShared();
      object();
    }
    json = members.rows.reader();
    list();
  }

  private void list() throws IOException, Problem {
    if (json.peek() != JsonToken.BEGIN_ARRAY) throw expected();
    json.beginArray();
    for (; json.hasNext(); next++) {
      row = next;
      if (row == Limits.ROWS) throw new Problem(Cause.TOO_LARGE, "more than " + Limits.ROWS + " rows");
      rows.begin();
      object();
    }
    json.endArray();
  }

  private void object() throws IOException, Problem {
    if (json.peek() != JsonToken.BEGIN_OBJECT) throw new Problem(Cause.JSON, "a row is not an object", row, null);
    json.beginObject();
    objects++;
    while (json.hasNext()) {
      String name = json.nextName();
      if (!schema.has(name)) throw wrong(name, "the model has no such feature");
      Feature feature = schema.feature(name);
      if (given[feature.index()] == objects) throw wrong(name, "the feature is there twice");
      given[feature.index()] = objects;
      if (shared && feature.shared() != (row == SHARED)) {
        throw wrong(name, "the feature belongs to the other of shared and rows");
      }
      value(feature);
    }
    json.endObject();
  }

  private Problem wrong(String feature, String text) {
    return new Problem(Cause.VALUE, text, row, feature);
  }

  private void value(Feature f) throws IOException, Problem {
    if (json.peek() != JsonToken.BEGIN_ARRAY) {
      scalar(f);
      return;
    }
    if (f.kind() == FeatureKind.DENSE) {
      vector(f);
      return;
    }
    if (f.kind() != FeatureKind.SEQUENCE) throw wrong(f.name(), "a list, for a feature that has one value");
    json.beginArray();
    while (json.hasNext()) scalar(f);
    json.endArray();
  }

  private void scalar(Feature f) throws IOException, Problem {
    count();
    JsonToken kind = json.peek();
    if (kind == JsonToken.NULL) {
      json.nextNull();  // missing
    } else if (f.kind() == FeatureKind.DENSE) {
      throw wrong(f.name(), "a dense feature is a list of numbers");
    } else if (kind == JsonToken.STRING) {
      rows.set(f.index(), wellFormed(json.nextString()));
    } else if (kind == JsonToken.BOOLEAN) {
      rows.set(f.index(), String.valueOf(json.nextBoolean()));
    } else if (kind == JsonToken.NUMBER) {
      number(f, json.nextString());
    } else {
      throw wrong(f.name(), "a value is a text, a number, true, false or null");
    }
  }

  /** An integer goes on as its text, exact at any size; another number as the double that it writes. */
  private void number(Feature f, String text) throws Problem {
    if (isWhole(text)) {
      rows.set(f.index(), text);
    } else {
      rows.set(f.index(), finite(f, text));
    }
  }

  private static boolean isWhole(String text) {
    for (int i = text.charAt(0) == '-' ? 1 : 0; i < text.length(); i++) {
      if (text.charAt(i) < '0' || text.charAt(i) > '9') return false;
    }
    return !text.equals("-0");
  }

  private double finite(Feature f, String text) throws Problem {
    double number = Double.parseDouble(text);
    if (Double.isInfinite(number)) throw wrong(f.name(), "a number beyond a double's range");
    return number;
  }

  private void vector(Feature f) throws IOException, Problem {
    float[] floats = new float[f.dim()];
    int n = 0;
    json.beginArray();
    for (; json.hasNext(); n++) {
      count();
      if (json.peek() != JsonToken.NUMBER || n == floats.length) throw wrong(f.name(), "expected " + f.dim() + " numbers");
      floats[n] = (float) finite(f, json.nextString());
    }
    json.endArray();
    if (n != floats.length) throw wrong(f.name(), "expected " + f.dim() + " numbers");
    rows.setFloats(f.index(), floats);
  }

  private void count() throws Problem {
    if (++values > Limits.VALUES) throw new Problem(Cause.TOO_LARGE, "more than " + Limits.VALUES + " values");
  }

  /** A \\ud800 without its partner has no UTF-8; it becomes U+FFFD, as Unicode recommends. */
  private static String wellFormed(String text) {
    StringBuilder mended = null;
    for (int i = 0; i < text.length(); i++) {
      if (Character.isHighSurrogate(text.charAt(i)) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else if (Character.isSurrogate(text.charAt(i))) {
        if (mended == null) mended = new StringBuilder(text);
        mended.setCharAt(i, '\ufffd');
      }
    }
    return mended == null ? text : mended.toString();
  }
}
