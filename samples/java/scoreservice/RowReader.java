package scoreservice;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.dpiframe.Feature;
import org.dpiframe.FeatureKind;
import org.dpiframe.Model;
import org.dpiframe.Rows;
import org.dpiframe.Schema;
import scoreservice.Problem.Cause;

/**
 * Fills rows from a request's text without a tree of objects in between, so memory does not depend on what the text nests.
 * A request is {@code {"rows": [{...}, ...], "shared": {...}}}, in either order.
 */
final class RowReader {
  private static final int ABSENT = -2;
  private static final int SHARED = -1;

  private final Schema schema;
  private final Rows rows;
  private final int[] given;  // by feature: the last row that gave it

  private JsonReader json;
  private int row;  // that is being read, or SHARED
  private boolean shared;  // the request has a shared row
  private int values;  // read so far

  RowReader(Model model, Rows rows) {
    schema = model.schema();
    this.rows = rows;
    given = new int[schema.features().size()];
  }

  /** Library errors pass through. */
  void read(byte[] body) throws Problem {
    StrictText.check(body);
    Arrays.fill(given, ABSENT);
    values = 0;
    shared = false;
    try {
      Set<String> there = members(body, "");
      if (!there.contains("rows")) throw expected();
      if (there.contains("shared")) members(body, "shared");  // its row has to come before the others
      members(body, "rows");
    } catch (IOException | NumberFormatException e) {  // not UTF-8, not JSON; Gson's word for a bad \\u
      throw new Problem(Cause.JSON, "no JSON: " + e.getMessage());
    }
  }

  private static Problem expected() {
    return new Problem(Cause.JSON, "expected {\"rows\": [{...}, ...]}");
  }

  /** Goes through the whole text, which is then known to be JSON, and reads the member {@code wanted}. Returns what there is. */
  private Set<String> members(byte[] body, String wanted) throws IOException, Problem {
    json = new JsonReader(new InputStreamReader(new ByteArrayInputStream(body), StandardCharsets.UTF_8.newDecoder()));
    if (json.peek() != JsonToken.BEGIN_OBJECT) throw expected();
    json.beginObject();
    Set<String> seen = new HashSet<>();
    while (json.hasNext()) {
      String key = json.nextName();
      if (!key.equals("rows") && !key.equals("shared")) {
        throw new Problem(Cause.JSON, "unknown member '" + key + "'; expected rows, and shared perhaps");
      }
      if (!seen.add(key)) throw new Problem(Cause.JSON, key + " is there twice");
      if (!key.equals(wanted)) {
        json.skipValue();
      } else if (key.equals("rows")) {
        list();
      } else if (json.peek() == JsonToken.NULL) {
        json.nextNull();
      } else {
        sharedRow();
      }
    }
    json.endObject();
    if (json.peek() != JsonToken.END_DOCUMENT) throw new Problem(Cause.JSON, "something follows the request's JSON");
    return seen;
  }

  private void sharedRow() throws IOException, Problem {
    shared = true;
    row = SHARED;
    rows.beginShared();
    object();
  }

  private void list() throws IOException, Problem {
    if (json.peek() != JsonToken.BEGIN_ARRAY) throw expected();
    json.beginArray();
    for (row = 0; json.hasNext(); row++) {
      if (row == Limits.ROWS) throw new Problem(Cause.TOO_LARGE, "more than " + Limits.ROWS + " rows");
      rows.begin();
      object();
    }
    json.endArray();
  }

  private void object() throws IOException, Problem {
    if (json.peek() != JsonToken.BEGIN_OBJECT) throw new Problem(Cause.JSON, "a row is not an object", row, null);
    json.beginObject();
    while (json.hasNext()) {
      String name = json.nextName();
      if (!schema.has(name)) throw wrong(name, "the model has no such feature");
      Feature feature = schema.feature(name);
      if (given[feature.index()] == row) throw wrong(name, "the feature is there twice");
      given[feature.index()] = row;
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
