package org.dpiframe;

/**
 * What was loaded.
 *
 * @param device what runs, after any fallback
 * @param deviceIndex which one of them
 * @param maxRows rows per internal chunk
 * @param hostBytes tables and weights in host memory
 * @param deviceBytes and in the device's memory
 * @param contentDigest changes with any byte of the bundle
 * @param version of the content as it is served: 1 after loading
 */
public record ModelInfo(
    Device device, int deviceIndex, long maxRows, long hostBytes, long deviceBytes, long contentDigest, long version) {}
