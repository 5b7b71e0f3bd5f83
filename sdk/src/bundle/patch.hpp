// A bundle and a delta that starts from it, as the bytes of the bundle that it gives: read like those of a
// file, put together as they are asked for. What comes is the file that the exporter wrote, bit for bit, or
// the reader of bundles finds a digest wrong.
//
//   DPI_ASSIGN_OR_RETURN(auto bytes, patched(base, delta));      // both checked against each other
//   Bundle::open_source(std::move(bytes), "v7 + v8.delta", {});  // and so on, for a chain
//
// Who calls it: apply.hpp (writes them to a file), and whoever loads a next version without one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/delta.hpp"
#include "bundle/delta/row_map.hpp"

namespace dpi {

/// By path, of the data sets that the delta says something of: where their rows come from; null = all but
/// what the base may have of it at the front comes from the delta.
using DataMaps = std::map<std::string, std::shared_ptr<const RowMap>, std::less<>>;

struct PatchMaps {
  /// By table of the manifest; null = the delta changes nothing of it.
  std::vector<std::shared_ptr<const RowMap>> tables;
  DataMaps data;
};

/// kBadModel: the delta starts from another version (both are named), changes what no delta may, or says
/// nothing of something that differs. Reads the base's keys once where keyed tables change; holds 8 to 16
/// bytes for each row that the delta names, whatever the size of the tables. maps: set where not null.
Result<std::unique_ptr<ByteSource>> patched(std::shared_ptr<Bundle> base, std::shared_ptr<const Delta> delta,
                                            PatchMaps* maps = nullptr);

}  // namespace dpi
