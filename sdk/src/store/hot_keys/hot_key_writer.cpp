#include "store/hot_keys/hot_key_writer.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "store/hot_keys/hot_key_layout.hpp"

namespace dpi {

using namespace hot_key_layout;

namespace {

std::vector<std::byte> head_bytes(const std::vector<HotTable>& tables) {
  std::vector<std::byte> bytes(sizeof(Head) + tables.size() * sizeof(Entry));
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kVersion;
  head.tables = static_cast<uint32_t>(tables.size());
  head.length = bytes.size();
  for (size_t t = 0; t < tables.size(); ++t) {
    const HotTable& table = tables[t];
    Entry e{};
    e.rows = static_cast<uint64_t>(table.rows);
    e.n = static_cast<uint64_t>(table.n);
    e.offset = head.length;
    e.lookups = table.lookups;
    std::copy(table.content.begin(), table.content.end(), e.content);
    std::copy(table.keys.begin(), table.keys.end(), e.keys);
    e.flags = table.raw_keys ? kRawKeys : 0;
    e.name_bytes = static_cast<uint32_t>(table.name.size());
    table.name.copy(e.name, kMostName);
    std::memcpy(bytes.data() + sizeof(Head) + t * sizeof(Entry), &e, sizeof e);
    head.length += e.n * sizeof(HotKey);
  }
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

}  // namespace

struct HotKeyWriter::Digest {
  XXH3_state_t* state = XXH3_createState();
  ~Digest() { XXH3_freeState(state); }
};

Result<std::unique_ptr<HotKeyWriter>> HotKeyWriter::create(const std::string& path,
                                                           std::vector<HotTable> tables) {
  std::unique_ptr<HotKeyWriter> w(new HotKeyWriter);
  w->path_ = path;
  w->temporary_ = path + "." + std::to_string(getpid()) + ".part";
  w->digest_ = std::make_unique<Digest>();
  if (w->digest_->state == nullptr) throw std::bad_alloc();
  const int fd = open(w->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    w->temporary_.clear();  // another's
    return w->failed();
  }
  w->file_ = fdopen(fd, "wb");
  if (w->file_ == nullptr) {
    Status failed = w->failed();
    ::close(fd);
    return failed;
  }
  for (const HotTable& t : tables) w->left_ += static_cast<uint64_t>(t.n);
  XXH3_64bits_reset(w->digest_->state);
  const std::vector<std::byte> head = head_bytes(tables);
  DPI_RETURN_IF_ERROR(w->write(head.data(), head.size()));
  return w;
}

HotKeyWriter::~HotKeyWriter() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status HotKeyWriter::failed() const {
  const int error = errno;
  return Status(Code::kIo, path_ + ": " + errno_text(error)).native(error);
}

Status HotKeyWriter::write(const void* bytes, size_t n) {
  XXH3_64bits_update(digest_->state, bytes, n);
  return n == 0 || std::fwrite(bytes, n, 1, file_) == 1 ? Status() : failed();
}

Status HotKeyWriter::add(std::span<const HotKey> keys) {
  if (keys.size() > left_) return internal_error(path_ + ": more keys than were announced");
  left_ -= keys.size();
  return write(keys.data(), keys.size_bytes());
}

Status HotKeyWriter::commit() {
  if (left_ != 0) return internal_error(path_ + ": fewer keys than were announced");
  const uint64_t digest = XXH3_64bits_digest(digest_->state);
  if (std::fseek(file_, offsetof(Head, digest), SEEK_SET) != 0 ||
      std::fwrite(&digest, sizeof digest, 1, file_) != 1 || std::fflush(file_) != 0 ||
      fsync(fileno(file_)) != 0)
    return failed();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return failed();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed();
  temporary_.clear();
  return {};
}

}  // namespace dpi
