// Version 1 object headers: the messages that describe a group or a data set. Messages of a kind that a
// bundle has no use for are refused here, by number; the others are handed on unread.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "bundle/hdf5/file.hpp"

namespace dpi::hdf5 {

struct Message {
  uint64_t address = 0;
  Bytes body;
};

struct ObjectHeader {
  uint64_t address = 0;
  std::optional<Message> dataspace, datatype, fill, layout;  // of a data set
  std::optional<Message> symbol_table;                       // of a group
};

/// The header at `address` and all its continuations. Each kind of message occurs at most once.
Result<ObjectHeader> read_object_header(File& file, const std::string& path, uint64_t address);

}  // namespace dpi::hdf5
