package org.dpiframe;

import java.lang.ref.Reference;
import org.dpiframe.Native.Layout;

/** The C structs of one caller: dpi_error, dpi_run_options, and room for an out-parameter or another struct. */
final class CallBlock {
  private final Block block;
  private final int runAt;
  private final int versionAt;
  private final int extraAt;

  CallBlock() {
    this(Long.BYTES);
  }

  CallBlock(int extra) {
    Native.ensure();
    runAt = Layout.ERROR_SIZE;
    versionAt = runAt + Layout.RUN_SIZE;
    extraAt = versionAt + Long.BYTES;
    block = new Block(extraAt + (long) extra);
    block.bytes.putInt(0, Layout.ERROR_SIZE);
    block.bytes.putInt(runAt, Layout.RUN_SIZE);
    block.bytes.putInt(extraAt, extra);  // struct_size, when the extra room is a struct
  }

  long error() {
    return block.address;
  }

  long extra() {
    return block.address + extraAt;
  }

  int extraInt(int offset) {
    return block.bytes.getInt(extraAt + offset);
  }

  long extraLong(int offset) {
    return block.bytes.getLong(extraAt + offset);
  }

  void extraInt(int offset, int value) {
    block.bytes.putInt(extraAt + offset, value);
  }

  void extraLong(int offset, long value) {
    block.bytes.putLong(extraAt + offset, value);
  }

  /** The address of the run options for a call without scores. */
  long run(Control control) {
    block.bytes.putLong(runAt + Layout.RUN_VERSION, block.address + versionAt);
    block.bytes.putLong(runAt + Layout.RUN_DEADLINE, control != null ? control.deadline() : 0);
    block.bytes.putLong(runAt + Layout.RUN_CANCEL, control != null ? control.flagAddress() : 0);
    return block.address + runAt;
  }

  /** The address of the run options for such a call. */
  long run(Control control, Scores scores) {
    long logits = scores.logitsAddress();
    run(control);
    block.bytes.putLong(runAt + Layout.RUN_LOGITS, logits);
    block.bytes.putLong(runAt + Layout.RUN_LOGITS_LEN, logits != 0 ? scores.capacity() : 0);
    return block.address + runAt;
  }

  /** The address of the run options for a submit: the completion has the version, and the scores keep the rest until then. */
  long run(Job job) {
    run(job.control(), job.scores);
    block.bytes.putLong(runAt + Layout.RUN_VERSION, 0);
    return block.address + runAt;
  }

  /** The version that scored the last call with run options. */
  long version() {
    return block.bytes.getLong(versionAt);
  }

  /** Throws what the error block holds unless {@code code} is 0. */
  void check(int code) {
    if (code != 0) throw exception(code);
    Reference.reachabilityFence(this);
  }

  private DpiException exception(int code) {
    return exceptionAt(block, 0, code);
  }

  /** What the dpi_error at {@code at} says. */
  static DpiException exceptionAt(Block block, int at, int code) {
    var b = block.bytes;
    return DpiException.of(new DpiException.Detail(code, block.textAt(at + Layout.ERROR_MESSAGE, Layout.MESSAGE_SIZE),
        b.getLong(at + Layout.ERROR_ROW), b.getLong(at + Layout.ERROR_FEATURE), b.getInt(at + Layout.ERROR_IN_SHARED) != 0,
        b.getInt(at + Layout.ERROR_NATIVE)));
  }
}
