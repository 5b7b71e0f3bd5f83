// The part that records of one version's calls have in common.
#pragma once

#include <cstdint>
#include <string>

#include "bundle/content_hash.hpp"

namespace dpi {

/// A part of a batch, by its columns.
struct RecordPart {
  uint32_t slots = 0, columns = 0;
};

struct RecordSource {
  ContentHash bundle{};
  uint64_t number = 0;  // the version's
  std::string schema;   // record_schema.hpp
  std::string info;     // JSON: how it was scored
  uint64_t schema_digest = 0;
  RecordPart whole, item, shared;  // of a batch without a shared part; the two parts of one that has it
  uint32_t heads = 0;

  // By the writing thread: the file that has its frame, and the frame's place among those of bundles.
  uint64_t in_file = 0;
  uint32_t index = 0;
};

}  // namespace dpi
