#include "bundle/extent_reader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "bundle/data_digest.hpp"

namespace dpi {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;  // digested while the second-level cache has them
constexpr int32_t kMostThreads = 8;                // more have read no faster than memory is written

int32_t useful_threads(int32_t threads) { return std::clamp(threads, 1, kMostThreads); }

/// Steps of a block: read (any thread, several at once), digested (any thread, in order), handed on (the
/// caller's thread, in order). Whoever is free takes the step that is nearest to the end, so that a thread
/// alone goes block by block.
class Reader {
 public:
  using Sink = std::function<Status(uint64_t at, std::span<const std::byte>)>;
  Reader(ByteSource& source, const DataSetInfo& info, std::string where, const ExtentCheck& check,
         const ExtentBlocks& blocks, const Sink& fn)
      : source_(source),
        info_(info),
        where_(std::move(where)),
        check_(check),
        block_(std::min<uint64_t>(blocks.bytes, info.extent.length)),
        count_((info.extent.length + block_ - 1) / block_),
        into_(blocks.into.size() >= info.extent.length ? blocks.into.data() : nullptr),
        fn_(fn) {}

  Status run();
  uint64_t digest() const { return digest_.value(); }
  ContentHash hash() { return hash_ ? hash_->finish() : info_.extent.hash; }

 private:
  struct Block {
    uint64_t at = 0;
    std::span<std::byte> bytes;
    bool is_read = false;
    Status status;
    std::unique_ptr<std::byte[]> own;
    std::optional<TreeHash::Leaves> leaves;
  };
  using Lock = std::unique_lock<std::mutex>;

  static void share(void* self, int32_t index) { static_cast<Reader*>(self)->work(index == 0); }
  void work(bool caller);
  bool may_read() const { return !failed_ && read_ < count_ && read_ < handed_ + ring_.size(); }
  bool may_digest() const {
    return !digesting_ && digested_ < read_ && ring_[digested_ % ring_.size()].is_read;
  }
  void read_next(Lock& lock);
  void digest_next(Lock& lock);
  void hand_on(Lock& lock);
  Status fill(Block& b, bool digest);

  ByteSource& source_;
  const DataSetInfo& info_;
  const std::string where_;
  const ExtentCheck& check_;
  const size_t block_;
  const uint64_t count_;  // of blocks
  std::byte* const into_;
  const Sink& fn_;
  DataDigest digest_;
  std::optional<TreeHash> hash_;

  std::mutex mutex_;  // of what follows
  std::condition_variable moved_;
  std::vector<Block> ring_;
  uint64_t read_ = 0, digested_ = 0, handed_ = 0;  // blocks that are or are being read; digested; handed on
  bool digesting_ = false, failed_ = false, ended_ = false;
  Status status_;
  std::exception_ptr thrown_;
};

Status Reader::run() {
  if (check_.hashes) {
    DPI_ASSIGN_OR_RETURN(hash_, TreeHash::create(TreeHash::kData));
  }
  const int32_t most = check_.workers.pool == nullptr ? 1 : useful_threads(check_.workers.threads);
  const auto shares = static_cast<int32_t>(std::min<uint64_t>(count_, static_cast<uint64_t>(most)));
  ring_ = std::vector<Block>(std::min<uint64_t>(count_, read_buffers(shares)));
  for (Block& b : ring_) {
    if (into_ == nullptr) b.own = std::make_unique_for_overwrite<std::byte[]>(block_);
    if (hash_) b.leaves.emplace();
  }
  if (shares == 1) {
    work(true);
  } else {
    check_.workers.pool->run(shares, &share, this);
  }
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  return std::move(status_);
}

/// A thread that waits does so for another one's step: there is always one that can be taken or is.
void Reader::work(bool caller) {
  Lock lock(mutex_);
  while (!ended_ && (caller || digested_ < count_)) {
    if (caller && handed_ < digested_) {
      hand_on(lock);
    } else if (may_digest()) {
      digest_next(lock);
    } else if (may_read()) {
      read_next(lock);
    } else {
      moved_.wait(lock);
      continue;
    }
    moved_.notify_all();
  }
}

/// The next block in order is digested piece by piece as it comes.
void Reader::read_next(Lock& lock) {
  const uint64_t index = read_++;
  Block& b = ring_[index % ring_.size()];
  b.at = index * block_;
  const auto n = static_cast<size_t>(std::min<uint64_t>(block_, info_.extent.length - b.at));
  b.bytes = {into_ != nullptr ? into_ + b.at : b.own.get(), n};
  const bool digest = !hash_ && !digesting_ && index == digested_;
  digesting_ = digesting_ || digest;
  lock.unlock();
  Status status = fill(b, digest);
  lock.lock();
  failed_ = failed_ || !status.ok();
  b.status = std::move(status);
  b.is_read = true;
  if (!digest) return;
  digesting_ = false;
  ++digested_;
}

Status Reader::fill(Block& b, bool digest) try {
  for (size_t done = 0; done < b.bytes.size();) {
    const std::span<std::byte> piece = b.bytes.subspan(done, std::min(kPieceBytes, b.bytes.size() - done));
    Status read = source_.read(info_.extent.offset + b.at + done, piece.data(), piece.size());
    if (!read.ok()) return std::move(read).within(where_);
    if (digest) digest_.add(piece);
    done += piece.size();
  }
  if (hash_) b.leaves->make(b.at, b.bytes);
  return {};
} catch (const std::bad_alloc&) {
  return {Code::kOutOfMemory, "out of memory"};
}

void Reader::digest_next(Lock& lock) {
  Block& b = ring_[digested_ % ring_.size()];
  if (b.status.ok()) {
    digesting_ = true;
    lock.unlock();
    digest_.add(b.bytes);
    if (hash_) hash_->join(*b.leaves, b.bytes);
    lock.lock();
    digesting_ = false;
  }
  ++digested_;
}

/// Hands on a block or its error. An error shows after all blocks before it, so threads change no status.
void Reader::hand_on(Lock& lock) {
  Block& b = ring_[handed_ % ring_.size()];
  Status status = std::move(b.status);
  lock.unlock();
  std::exception_ptr thrown;
  if (status.ok()) {
    try {
      status = fn_(b.at, b.bytes);
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  lock.lock();
  b.is_read = false;
  ++handed_;
  if (status.ok() && thrown == nullptr && handed_ < count_) return;
  ended_ = failed_ = true;
  status_ = std::move(status);
  thrown_ = std::move(thrown);
}

}  // namespace

size_t read_buffers(int32_t threads) {
  const auto n = static_cast<size_t>(useful_threads(threads));
  return n == 1 ? 1 : n + 2;
}

Status read_extent(ByteSource& source, const std::string& file, const DataSetInfo& info,
                   const ExtentCheck& check, const ExtentBlocks& blocks,
                   const std::function<Status(uint64_t at, std::span<const std::byte>)>& fn) {
  if (info.extent.length == 0) return {};
  const std::string where = file + ":" + info.path;
  Reader reader(source, info, where, check, blocks, fn);
  DPI_RETURN_IF_ERROR(reader.run());
  const uint64_t digest = reader.digest();
  if (digest != info.extent.digest)
    return bad_model(where + ": its data is damaged: digest " + hex_text(digest) + ", the user block says " +
                     hex_text(info.extent.digest));
  const ContentHash found = reader.hash();
  if (found == info.extent.hash) return {};
  return bad_model(where + ": its data does not match its hash: it is " + hex_bytes(found) +
                   ", the user block says " + hex_bytes(info.extent.hash));
}

}  // namespace dpi
