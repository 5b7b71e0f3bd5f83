#include "bundle/hdf5/object_header.hpp"

#include <vector>

namespace dpi::hdf5 {
namespace {

constexpr uint32_t kMaxMessages = 64;        // of one object
constexpr uint64_t kMaxHeaderBytes = 65536;  // of one piece of an object header
constexpr uint64_t kPrefixBytes = 16;        // what precedes the messages
constexpr uint64_t kMessageHead = 8;
constexpr unsigned kShared = 2;  // a message's flag

enum MessageType : uint32_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kDatatype = 0x03,
  kFill = 0x05,
  kLayout = 0x08,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kModified = 0x12,
};

class HeaderReader {
 public:
  HeaderReader(File& file, const std::string& path) : file_(file), path_(path) {}

  Result<ObjectHeader> run(uint64_t address) {
    out_.address = address;
    DPI_ASSIGN_OR_RETURN(const Bytes prefix, file_.claim(path_, address, kPrefixBytes, "its object header"));
    Cursor c(prefix);
    if (c.u8() != 1) return file_.fault(path_, address, "not a version 1 object header");
    c.skip(1);
    const uint32_t said = c.u16();
    c.skip(4);  // the number of links to it
    const uint64_t bytes = c.u32();
    if (said > kMaxMessages)
      return file_.fault(path_, address, std::to_string(said) + " messages in one object header");
    pieces_.push_back({address + kPrefixBytes, bytes});
    for (size_t i = 0; i < pieces_.size(); ++i) {  // a piece may add another
      const Piece next = pieces_[i];
      DPI_RETURN_IF_ERROR(piece(next.address, next.bytes));
    }
    if (count_ == said) return out_;
    return file_.fault(
        path_, address,
        "its object header says " + std::to_string(said) + " messages and has " + std::to_string(count_));
  }

 private:
  struct Piece {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };

  Status piece(uint64_t address, uint64_t bytes) {
    if (bytes > kMaxHeaderBytes)
      return file_.fault(path_, address, "object header of " + std::to_string(bytes) + " bytes");
    DPI_ASSIGN_OR_RETURN(const Bytes data, file_.claim(path_, address, bytes, "its object header"));
    Cursor c(data);
    while (c.left() > 0) {
      const uint64_t at = address + data.size() - c.left();
      const uint32_t type = c.u16();
      const uint32_t size = c.u16();
      const unsigned flags = c.u8();
      c.skip(3);
      const Message message{at, c.bytes(size)};
      if (!c.ok() || size % 8 != 0)
        return file_.fault(path_, at,
                           "a message is longer than its object header or not a multiple of 8 bytes");
      if (++count_ > kMaxMessages)
        return file_.fault(path_, at, "more than " + std::to_string(kMaxMessages) + " messages");
      if ((flags & kShared) != 0) return file_.fault(path_, at, "a shared message");
      DPI_RETURN_IF_ERROR(keep(type, message));
    }
    return {};
  }

  Status keep(uint32_t type, const Message& message) {
    switch (type) {
      case kNil:
      case kModified:  // a time stamp
        return {};
      case kDataspace:
        return once(&out_.dataspace, message, type);
      case kDatatype:
        return once(&out_.datatype, message, type);
      case kFill:
        return once(&out_.fill, message, type);
      case kLayout:
        return once(&out_.layout, message, type);
      case kSymbolTable:
        return once(&out_.symbol_table, message, type);
      case kContinuation:
        return continuation(message);
      default:
        return file_.fault(path_, message.address,
                           "message type " + std::to_string(type) +
                               " has no place in a bundle (attributes, other links, filters, files ...)");
    }
  }

  Status once(std::optional<Message>* to, const Message& message, uint32_t type) {
    if (to->has_value())
      return file_.fault(path_, message.address, "message type " + std::to_string(type) + " twice");
    *to = message;
    return {};
  }

  Status continuation(const Message& message) {
    Cursor c(message.body);
    const uint64_t address = c.u64();
    const uint64_t bytes = c.u64();
    if (!c.ok() || bytes < kMessageHead)
      return file_.fault(path_, message.address, "a continuation without messages");
    pieces_.push_back({address, bytes});
    return {};
  }

  File& file_;
  const std::string& path_;
  std::vector<Piece> pieces_;
  uint32_t count_ = 0;
  ObjectHeader out_;
};

}  // namespace

Result<ObjectHeader> read_object_header(File& file, const std::string& path, uint64_t address) {
  return HeaderReader(file, path).run(address);
}

}  // namespace dpi::hdf5
