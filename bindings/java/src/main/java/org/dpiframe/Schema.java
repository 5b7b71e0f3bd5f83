package org.dpiframe;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What a model takes and gives; immutable. */
public final class Schema {
  /** The numbers that a batch depends on; equal for models that can share batches. */
  record Shape(int slots, int denseDim, int itemSlots, int itemDenseDim, int sharedSlots, int sharedDenseDim, int heads) {}

  private final Shape shape;
  private final List<Feature> features;
  private final List<String> heads;
  private final Map<String, Feature> byName = new HashMap<>();
  private final boolean weighted;

  Schema(Shape shape, List<Feature> features, List<String> heads) {
    this.shape = shape;
    this.features = List.copyOf(features);
    this.heads = List.copyOf(heads);
    for (Feature f : features) byName.put(f.name(), f);
    weighted = features.stream().anyMatch(Feature::weighted);
  }

  /** All features in schema order. */
  public List<Feature> features() {
    return features;
  }

  /** The feature of that name; {@link DpiException.NotFound} if there is none. */
  public Feature feature(String name) {
    Feature f = byName.get(name);
    if (f != null) return f;
    List<String> names = new ArrayList<>(byName.keySet());
    names.sort(null);
    throw DpiException.of(DpiException.Detail.of(
        Status.NOT_FOUND, "no feature '" + name + "'; the features are " + String.join(", ", names)));
  }

  /** Whether there is a feature of that name. */
  public boolean has(String name) {
    return byName.containsKey(name);
  }

  /** Names of the scores of a row. */
  public List<String> heads() {
    return heads;
  }

  /** Id features: slots of a row without shared part. */
  public int slots() {
    return shape.slots();
  }

  /** Floats of a row without shared part. */
  public int denseDim() {
    return shape.denseDim();
  }

  public int itemSlots() {
    return shape.itemSlots();
  }

  public int itemDenseDim() {
    return shape.itemDenseDim();
  }

  public int sharedSlots() {
    return shape.sharedSlots();
  }

  public int sharedDenseDim() {
    return shape.sharedDenseDim();
  }

  /** Whether any feature may be given once for many rows. */
  public boolean hasShared() {
    return shape.sharedSlots() + shape.sharedDenseDim() > 0;
  }

  /** Whether any feature takes weights. */
  public boolean hasWeights() {
    return weighted;
  }

  Shape shape() {
    return shape;
  }
}
