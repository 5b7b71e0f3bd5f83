#include <rocksdb/env.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/clock.hpp"
#include "store/rocksdb/errors.hpp"
#include "store/rocksdb/store.hpp"

namespace dpi::rocks {
namespace {

/// RocksDB cannot be interrupted, so the deadline is looked at between so many rows: 0.2 ms from memory. It
/// works on 32 keys at a time itself.
constexpr int64_t kRowsAtOnce = 128;

/// One round of MultiGet. 20 KB, on the stack.
struct Round {
  std::array<char[8], kRowsAtOnce> bytes;
  std::array<rocksdb::Slice, kRowsAtOnce> keys;
  std::array<rocksdb::PinnableSlice, kRowsAtOnce> values;
  std::array<rocksdb::Status, kRowsAtOnce> states;
};

/// The request's keys in the order of RocksDB's: neighbours share a block.
std::vector<int32_t> in_key_order(const dpi_store_fetch& r) {
  std::vector<int32_t> order(static_cast<size_t>(r.n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return static_cast<uint64_t>(r.keys[a]) < static_cast<uint64_t>(r.keys[b]);
  });
  return order;
}

/// RocksDB's own clock counts microseconds of the wall.
Status set_deadline(uint64_t deadline_ns, rocksdb::ReadOptions* options) {
  if (deadline_ns == 0) return {};
  const uint64_t now = monotonic_ns();
  if (now >= deadline_ns) return told(rocksdb::Status::TimedOut(), "fetch");
  const uint64_t left = (deadline_ns - now) / 1000 + 1;
  options->deadline = std::chrono::microseconds(rocksdb::Env::Default()->NowMicros() + left);
  options->io_timeout = std::chrono::microseconds(left);
  return {};
}

Status take(const Round& round, const int32_t* order, int64_t n, const TableSpec& spec,
            const dpi_store_fetch& r, const std::string& path) {
  const auto bytes = static_cast<size_t>(spec.row_bytes);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const rocksdb::Status& s = round.states[at];
    if (s.IsNotFound()) continue;
    if (!s.ok()) return told(s, path);
    if (round.values[at].size() != bytes) {
      return bad_model(path + ": table '" + spec.name + "': a row of " +
                       std::to_string(round.values[at].size()) + " bytes, expected " + std::to_string(bytes));
    }
    std::memcpy(r.rows[order[at]], round.values[at].data(), bytes);
    r.found[order[at] / 64] |= uint64_t{1} << (order[at] % 64);
  }
  return {};
}

}  // namespace

Status Store::fetch(const dpi_store_fetch& r) const {
  const Table& t = tables_[static_cast<size_t>(r.table)];
  if (t.rows == nullptr) return Status(Code::kNotFound, place(t.spec) + ": was dropped");
  const std::vector<int32_t> order = in_key_order(r);
  Round round;
  for (int64_t first = 0; first < r.n; first += kRowsAtOnce) {
    const int64_t n = std::min(kRowsAtOnce, r.n - first);
    const int32_t* part = order.data() + first;
    rocksdb::ReadOptions options;
    if (Status late = set_deadline(r.deadline_ns, &options); !late.ok()) {
      return std::move(late).within(place(t.spec));
    }
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      encode_key(r.keys[part[i]], round.bytes[at]);
      round.keys[at] = rocksdb::Slice(round.bytes[at], 8);
      round.values[at].Reset();
    }
    db_->MultiGet(options, t.rows, static_cast<size_t>(n), round.keys.data(), round.values.data(),
                  round.states.data(), true);
    DPI_RETURN_IF_ERROR(take(round, part, n, t.spec, r, settings_.path));
  }
  return {};
}

}  // namespace dpi::rocks
