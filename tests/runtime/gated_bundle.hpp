// A bundle whose file answers when a test wants it to: a store that hangs.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/filed_bundle.hpp"

namespace dpi::test {

/// A file whose reads wait at a gate. It has nothing at hand, so that callers never read it themselves.
class GatedFile final : public ByteSource {
 public:
  explicit GatedFile(std::shared_ptr<ByteSource> file) : file_(std::move(file)) { size_ = file_->size(); }
  Status read(uint64_t offset, void* to, size_t n) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
    lock.unlock();
    return file_->read(offset, to, n);
  }
  void set(bool open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

 private:
  const std::shared_ptr<ByteSource> file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

class GatedBundle final : public FiledBundle {
 public:
  explicit GatedBundle(ModelBuilder& builder)
      : FiledBundle(builder, 1), gate(std::make_shared<GatedFile>(FiledBundle::file())) {}
  std::shared_ptr<ByteSource> file() const override { return gate; }
  const std::shared_ptr<GatedFile> gate;
};

}  // namespace dpi::test
