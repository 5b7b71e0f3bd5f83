#include "store/rocksdb/errors.hpp"

#include <cerrno>

namespace dpi::rocks {
namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Status io_error(const rocksdb::Status& s, const std::string& place) {
  const std::string text = s.ToString();
  if (contains(text, "lock hold by current process") || contains(text, "While lock file")) {
    return Status(Code::kIo,
                  place + "/LOCK: is held by a process that loads tables; wait for its end (" + text + ")")
        .native(EAGAIN);
  }
  if (s.IsNoSpace() || contains(text, "No space left")) {
    return Status(Code::kIo, place + ": the disk is full (" + text + ")").native(ENOSPC);
  }
  if (contains(text, "Cannot allocate memory")) return Status(Code::kOutOfMemory, place + ": " + text);
  return Status(Code::kIo, place + ": " + text);
}

}  // namespace

Status told(const rocksdb::Status& s, const std::string& place, Code damaged) {
  if (s.ok()) return {};
  if (s.IsTimedOut()) return Status(Code::kTimeout, place + ": the deadline has passed");
  if (s.IsMemoryLimit()) return Status(Code::kOutOfMemory, place + ": " + s.ToString());
  if (s.IsCorruption()) {
    return Status(damaged, place + ": is damaged (" + s.ToString() +
                               "); take the directory away and load its tables again");
  }
  if (s.IsIOError() || s.IsPathNotFound()) return io_error(s, place);
  return Status(Code::kIo, place + ": " + s.ToString());
}

}  // namespace dpi::rocks
