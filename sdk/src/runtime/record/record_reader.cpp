#include "runtime/record/record_reader.hpp"

#include <xxhash.h>

#include <cstring>
#include <utility>

#include "base/checked.hpp"
#include "runtime/record/record_schema.hpp"

namespace dpi {

using namespace record_layout;

namespace {

constexpr int64_t kMostRecordRows = int64_t{1} << 31;

/// Takes arrays off a payload, whose length was compared with theirs.
class Taker {
 public:
  explicit Taker(const std::byte* from) : from_(from) {}
  template <class T>
  const T* array(uint64_t n, bool there = true) {
    if (!there) return nullptr;
    const auto* const at = reinterpret_cast<const T*>(from_);
    from_ += array_bytes(n * sizeof(T));
    return at;
  }

 private:
  const std::byte* from_;
};

/// Bytes of arrays, one after another; remembers an overflow.
class Sum {
 public:
  void array(std::optional<int64_t> n, int64_t size, bool there = true) {
    if (!there || !fits_) return;
    const auto bytes = n ? checked_mul(*n, size) : std::nullopt;
    fits_ = bytes.has_value() && *bytes <= static_cast<int64_t>(kMostPayload);
    if (fits_) sum_ += static_cast<int64_t>(array_bytes(static_cast<uint64_t>(*bytes)));
    fits_ = fits_ && sum_ <= static_cast<int64_t>(kMostPayload);
  }
  bool is(uint64_t bytes) const { return fits_ && static_cast<uint64_t>(sum_) == bytes; }

 private:
  bool fits_ = true;
  int64_t sum_ = 0;
};

std::optional<int64_t> plus_one(std::optional<int64_t> n) {
  if (!n || *n >= kMostRecordRows * kMostRecordRows / 2) return std::nullopt;
  return *n + 1;
}

bool is_sane(const RequestHead& h) {
  const bool shared = (h.flags & kShared) != 0;
  const bool no_shared_part = h.shared_rows == 0 && h.shared_nnz == 0 && h.shared_slots == 0 &&
                              h.shared_columns == 0 && (h.flags & (kSharedOffsets | kSharedWeights)) == 0;
  return (h.flags & ~uint32_t{kKnownFlags}) == 0 && h.zero == 0 && h.rows >= 1 && h.rows <= kMostRecordRows &&
         h.nnz >= 0 && h.shared_rows >= 0 && h.shared_rows <= kMostRecordRows && h.shared_nnz >= 0 &&
         h.heads >= 1 && (shared || no_shared_part);
}

/// Bytes of the payload that has these counts.
bool has_length(const RequestHead& h, uint64_t length) {
  Sum sum;
  sum.array(1, sizeof h);
  sum.array(h.nnz, 8);
  sum.array(plus_one(checked_mul(h.rows, int64_t{h.slots})), 8, (h.flags & kOffsets) != 0);
  sum.array(h.nnz, 4, (h.flags & kWeights) != 0);
  sum.array(checked_mul(h.rows, int64_t{h.columns}), 4);
  sum.array(h.shared_nnz, 8);
  sum.array(plus_one(checked_mul(h.shared_rows, int64_t{h.shared_slots})), 8,
            (h.flags & kSharedOffsets) != 0);
  sum.array(h.shared_nnz, 4, (h.flags & kSharedWeights) != 0);
  sum.array(checked_mul(h.shared_rows, int64_t{h.shared_columns}), 4);
  sum.array(h.shared_rows + 1, 8, (h.flags & kShared) != 0);
  sum.array(checked_mul(h.rows, int64_t{h.heads}), 4);
  return sum.is(length);
}

}  // namespace

Result<std::unique_ptr<RecordReader>> RecordReader::open(std::unique_ptr<ByteSource> source,
                                                         std::string name) {
  std::unique_ptr<RecordReader> reader(new RecordReader(std::move(source), std::move(name)));
  DPI_RETURN_IF_ERROR(reader->read_head());
  return reader;
}

std::string RecordReader::place() const {
  return name_ + ": request " + std::to_string(request_.number) + " at byte " + std::to_string(request_.at);
}

Status RecordReader::damaged(uint64_t at, const std::string& how) const {
  return bad_model(name_ + ": byte " + std::to_string(at) + ": " + how + "; " + std::to_string(requests_) +
                   " requests before it are whole");
}

Status RecordReader::read(uint64_t at, void* to, size_t n) {
  Status got = source_->read(at, to, n);
  return got.ok() ? Status() : std::move(got).within(name_);
}

Status RecordReader::read_head() {
  FileHead head{};
  if (source_->size() < sizeof head)
    return bad_model(name_ + ": it ends before its first " + std::to_string(sizeof head) + " bytes do");
  DPI_RETURN_IF_ERROR(read(0, &head, sizeof head));
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return bad_model(name_ + ": it is no record file");
  if (head.version != kVersion)
    return unsupported(name_ + ": version " + std::to_string(head.version) + ", this release reads " +
                       std::to_string(kVersion));
  if (XXH3_64bits(&head, offsetof(FileHead, digest)) != head.digest || head.zero != 0)
    return bad_model(name_ + ": the digest of its first bytes is not theirs");
  began_ms_ = head.began_ms;
  at_ = sizeof head;
  return {};
}

/// False: the rest of the file is no whole frame.
Result<bool> RecordReader::read_frame(FrameHead* head) {
  const uint64_t left = source_->size() - at_;
  if (left < sizeof *head) return false;
  DPI_RETURN_IF_ERROR(read(at_, head, sizeof *head));
  if (XXH3_64bits_withSeed(head, offsetof(FrameHead, head_digest), at_) != head->head_digest)
    return damaged(at_, "the head of a frame is damaged");
  if (head->kind < kBundle || head->kind > kEnd || head->zero != 0)
    return damaged(at_, "a frame of kind " + std::to_string(head->kind) + ", which version 1 has not");
  if (head->length % kArrayAlign != 0 || head->length > kMostPayload)
    return damaged(at_, "a frame of " + std::to_string(head->length) + " bytes");
  if (left - sizeof *head < head->length) return false;
  words_.resize(static_cast<size_t>(head->length / sizeof(uint64_t)));
  length_ = head->length;
  DPI_RETURN_IF_ERROR(read(at_ + sizeof *head, words_.data(), static_cast<size_t>(length_)));
  if (XXH3_64bits(words_.data(), static_cast<size_t>(length_)) != head->digest)
    return damaged(at_, "the digest of a frame is not that of its bytes");
  return true;
}

Result<bool> RecordReader::next() {
  while (!ended_) {
    FrameHead head{};
    DPI_ASSIGN_OR_RETURN(const bool whole, read_frame(&head));
    if (!whole) return false;
    const uint64_t frame = at_;
    if (head.kind == kBundle) DPI_RETURN_IF_ERROR(read_bundle());
    if (head.kind == kRequest) DPI_RETURN_IF_ERROR(read_request(frame));
    if (head.kind == kEnd) DPI_RETURN_IF_ERROR(read_end());
    at_ += sizeof head + length_;
    if (head.kind == kRequest) return true;
  }
  if (left_over() > 0) return damaged(at_, "bytes follow its last frame");
  return false;
}

Status RecordReader::read_bundle() {
  BundleHead head{};
  if (length_ < sizeof head || bundles_.size() >= kMostBundles)
    return damaged(at_, "a frame of a bundle that is none");
  std::memcpy(&head, payload().data(), sizeof head);
  const uint64_t texts = uint64_t{head.schema_bytes} + head.info_bytes;
  const uint64_t all = array_bytes(sizeof head + texts);
  if (all != length_)
    return damaged(at_, "a frame of a bundle with " + std::to_string(texts) + " bytes of text has " +
                            std::to_string(length_));
  RecordedBundle b;
  const auto* text = reinterpret_cast<const char*>(payload().data() + sizeof head);
  b.schema.assign(text, head.schema_bytes);
  b.info.assign(text + head.schema_bytes, head.info_bytes);
  b.number = head.number;
  b.schema_digest = head.schema_digest;
  std::memcpy(b.bundle.data(), head.bundle, sizeof head.bundle);
  if (record_schema_digest(b.schema) != b.schema_digest)
    return damaged(at_, "the digest of a schema is not that of its text");
  bundles_.push_back(std::move(b));
  return {};
}

Status RecordReader::read_request(uint64_t frame) {
  RequestHead& h = request_.head;
  if (length_ < sizeof h) return damaged(frame, "a request of " + std::to_string(length_) + " bytes");
  std::memcpy(&h, payload().data(), sizeof h);
  if (h.bundle >= bundles_.size())
    return damaged(frame, "a request of bundle " + std::to_string(h.bundle) + ", of " +
                              std::to_string(bundles_.size()) + " that the file names before it");
  if (!is_sane(h) || !has_length(h, length_))
    return damaged(frame, "a request of " + std::to_string(h.rows) + " rows and " + std::to_string(h.nnz) +
                              " ids does not fill its " + std::to_string(length_) + " bytes");
  const auto rows = static_cast<uint64_t>(h.rows), users = static_cast<uint64_t>(h.shared_rows);
  const auto nnz = static_cast<uint64_t>(h.nnz), users_nnz = static_cast<uint64_t>(h.shared_nnz);
  Taker take(payload().data() + sizeof h);
  Batch& b = request_.batch;
  b = {};
  b.slot_major = (h.flags & kSlotMajor) != 0;
  b.item.rows = h.rows;
  b.item.nnz = h.nnz;
  b.item.ids = take.array<int64_t>(nnz);
  b.item.offsets = take.array<int64_t>(rows * h.slots + 1, (h.flags & kOffsets) != 0);
  b.item.weights = take.array<float>(nnz, (h.flags & kWeights) != 0);
  b.item.dense = take.array<float>(rows * h.columns);
  b.shared.rows = h.shared_rows;
  b.shared.nnz = h.shared_nnz;
  b.shared.ids = take.array<int64_t>(users_nnz);
  b.shared.offsets = take.array<int64_t>(users * h.shared_slots + 1, (h.flags & kSharedOffsets) != 0);
  b.shared.weights = take.array<float>(users_nnz, (h.flags & kSharedWeights) != 0);
  b.shared.dense = take.array<float>(users * h.shared_columns);
  b.shared_offsets = take.array<int64_t>(users + 1, (h.flags & kShared) != 0);
  request_.scores = take.array<float>(rows * h.heads);
  request_.number = requests_++;
  request_.at = frame;
  return {};
}

Status RecordReader::read_end() {
  EndFrame end{};
  if (length_ != sizeof end) return damaged(at_, "a last frame of " + std::to_string(length_) + " bytes");
  std::memcpy(&end, payload().data(), sizeof end);
  if (end.requests != static_cast<uint64_t>(requests_))
    return damaged(at_, "the last frame counts " + std::to_string(end.requests) + " requests");
  ended_ = true;
  return {};
}

}  // namespace dpi
