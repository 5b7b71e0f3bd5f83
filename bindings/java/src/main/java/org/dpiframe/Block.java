package org.dpiframe;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** Zeroed native memory, 64-byte aligned, with its address; lives as long as this object is reachable. */
final class Block {
  static final int ALIGN = 64;

  final ByteBuffer bytes;
  final long address;

  Block(long size) {
    if (size > Integer.MAX_VALUE - 2 * ALIGN) {
      throw new IllegalArgumentException(size + " bytes in one block, at most 2 GiB: use smaller batches");
    }
    // alignedSlice also rounds the end down.
    int padded = (int) ((Math.max(size, 1) + ALIGN - 1) / ALIGN * ALIGN) + ALIGN;
    bytes = ByteBuffer.allocateDirect(padded).alignedSlice(ALIGN).order(ByteOrder.nativeOrder());
    address = Native.address(bytes);
  }

  /** {@code text} as NUL-terminated UTF-8; {@code name} is the caller's parameter, for the exception where it is null or cannot be such. */
  static Block text(String name, String text) {
    byte[] utf8 = Objects.requireNonNull(text, name).getBytes(StandardCharsets.UTF_8);
    for (byte b : utf8) {
      if (b == 0) throw new IllegalArgumentException(name + " holds a NUL character");
    }
    Block block = new Block(utf8.length + 1L);
    block.bytes.put(0, utf8);
    return block;
  }

  /** The NUL-terminated UTF-8 at {@code offset}, at most {@code cap} bytes. */
  String textAt(int offset, int cap) {
    int end = offset;
    while (end < offset + cap && bytes.get(end) != 0) end++;
    byte[] utf8 = new byte[end - offset];
    bytes.get(offset, utf8);
    return new String(utf8, StandardCharsets.UTF_8);
  }

  FloatBuffer floats(long offset, long count) {
    return slice(offset, count * Float.BYTES).asFloatBuffer();
  }

  LongBuffer longs(long offset, long count) {
    return slice(offset, count * Long.BYTES).asLongBuffer();
  }

  private ByteBuffer slice(long offset, long size) {
    return bytes.slice((int) offset, (int) size).order(ByteOrder.nativeOrder());
  }
}
