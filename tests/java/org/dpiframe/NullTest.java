package org.dpiframe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Null where a public call takes an object: it is a default, or the exception says which parameter it was. */
class NullTest {
  private static Object zero(Class<?> type) {
    return type.isPrimitive() ? Array.get(Array.newInstance(type, 1), 0) : null;
  }

  /** What the virtual machine itself says of a null that nobody looked at begins with Cannot. */
  private static boolean bare(Throwable thrown) {
    return thrown instanceof NullPointerException && (thrown.getMessage() == null || thrown.getMessage().startsWith("Cannot "));
  }

  private static int callsOf(Object object, List<String> found) throws Exception {
    int calls = 0;
    for (Method method : object.getClass().getDeclaredMethods()) {
      Class<?>[] types = method.getParameterTypes();
      boolean takesObjects = false;
      for (Class<?> type : types) takesObjects |= !type.isPrimitive();
      if (!Modifier.isPublic(method.getModifiers()) || method.isSynthetic() || !takesObjects || method.getName().equals("equals")) continue;
      Object[] nulls = new Object[types.length];
      for (int i = 0; i < types.length; i++) nulls[i] = zero(types[i]);
      calls++;
      try {
        method.invoke(object, nulls);
      } catch (InvocationTargetException e) {
        if (bare(e.getCause())) found.add(object.getClass().getSimpleName() + "." + method.getName() + ": " + e.getCause().getMessage());
      }
    }
    return calls;
  }

  @Test
  void isNamed() throws Exception {
    List<String> found = new ArrayList<>();
    int calls = 0;
    try (Environment environment = new Environment(); Model model = Support.adult();
        Endpoint endpoint = new Endpoint("nulls", null, environment); Rows rows = model.newRows(); Context context = model.newContext(4, 64);
        Batcher batcher = model.newBatcher(null)) {
      endpoint.load(Support.demo("adult_widedeep.h5").toString());
      rows.begin();
      Batch batch = model.batch().maxRows(4).build();
      for (Object object : List.of(new Options(), Model.builder(), environment, endpoint, model, rows, context, batcher, batch, batch.item(), new Control())) {
        calls += callsOf(object, found);
      }
    }
    assertTrue(calls > 40, "only " + calls + " calls");
    assertEquals(List.of(), found);
  }

  @Test
  void scoresAreNamed() {
    try (Model model = Support.adult()) {
      Batch batch = model.batch().maxRows(4).build();
      assertEquals("scores", assertThrows(NullPointerException.class, () -> model.predict(batch, null)).getMessage());
      model.predict(batch, model.newScores(4));  // and the batch is not left in use
    }
  }

  @Test
  void endpointsTakeDefaults() {
    for (Endpoint endpoint : List.of(new Endpoint("one"), new Endpoint("two", null), new Endpoint("three", null, null))) {
      try (endpoint) {
        endpoint.load(Support.demo("adult_widedeep.h5").toString());
        assertEquals(1, endpoint.version());
      }
    }
  }
}
