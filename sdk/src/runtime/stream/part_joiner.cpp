#include "runtime/stream/part_joiner.hpp"

namespace dpi::stream {

void PartJoiner::forget() {
  kept_ = parts_ = 0;
  std::vector<std::byte>().swap(bytes_);
}

Status PartJoiner::refuse(const dpi_stream_message& m) {
  const int64_t sum = m.bytes + static_cast<int64_t>(bytes_.size());
  if (sum > max_bytes_)
    return unsupported(std::to_string(sum) + " bytes are more than max_bytes, " + std::to_string(max_bytes_));
  if (m.parts < 1) return bad_model("its header dpi-part is not of the form 2/3");
  if (m.part != kept_ || (kept_ > 0 && m.parts != parts_))
    return bad_model(
        "part " + std::to_string(m.part + 1) + " of " + std::to_string(m.parts) + " comes after " +
        (kept_ > 0 ? "part " + std::to_string(kept_) + " of " + std::to_string(parts_) : "none"));
  return {};
}

Status PartJoiner::take(const dpi_stream_message& m, Incoming* out, bool* whole) {
  *whole = false;
  if (kept_ == 0 || m.part == 0) forget();  // who calls tells of a set that broke off
  const Status why = refuse(m);
  if (!why.ok()) {
    forget();
    return why;
  }
  const auto* data = reinterpret_cast<const std::byte*>(m.data);
  const auto bytes = static_cast<size_t>(m.bytes);
  if (kept_ == 0) first_offset_ = m.offset;
  *out = {{data, bytes}, first_offset_, m.offset + 1, m.timestamp_ms};
  *whole = m.part + 1 == m.parts;
  if (m.parts == 1) return {};
  bytes_.insert(bytes_.end(), data, data + bytes);
  parts_ = m.parts;
  kept_ = *whole ? 0 : m.part + 1;
  out->bytes = bytes_;
  return {};
}

}  // namespace dpi::stream
