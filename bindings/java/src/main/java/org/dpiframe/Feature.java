package org.dpiframe;

/**
 * One feature of a {@link Schema}.
 *
 * @param index its place in {@link Schema#features()}, and in {@link DpiException#feature()}
 * @param name its name in the bundle
 * @param kind what a row holds of it
 * @param shared it belongs to the shared (user) part
 * @param slot its slot in a batch without shared part; -1 for numeric and dense features
 * @param partSlot its slot within its own part of a batch that has a shared part
 * @param denseColumn its first dense column; -1 for categorical and sequence features
 * @param partColumn likewise within its own part
 * @param dim floats of a dense feature, else 1
 * @param vocabSize valid ids are 0 .. vocabSize - 1; 0 of an id feature: ids are keys, any long
 * @param maxLen longer bags are cut; 0 = unlimited
 * @param hasEncoder raw values can be given ({@link Rows})
 * @param weighted its ids may carry weights
 */
public record Feature(int index, String name, FeatureKind kind, boolean shared, int slot, int partSlot, int denseColumn,
    int partColumn, int dim, long vocabSize, long maxLen, boolean hasEncoder, boolean weighted) {}
