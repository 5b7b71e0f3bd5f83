// One version of an endpoint: a model, its number, and what a caller may rely on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/endpoint/contract.hpp"
#include "runtime/endpoint/counts.hpp"
#include "runtime/endpoint/origin.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

struct Version {
  Version() = default;
  Version(const Version&) = delete;
  Version& operator=(const Version&) = delete;
  /// Waits for the calls that hold a context of the model. Whoever hands models out to callers keeps those
  /// that are still held.
  virtual ~Version() = default;

  Model* model = nullptr;  // owned by whoever derives
  uint64_t number = 0;
  std::string path;
  std::shared_ptr<const Contract> contract;
  std::shared_ptr<const Origin> origin;  // what the next delta starts from
  uint64_t bytes = 0;  // forecast, with every context in use: tables, weights ...; what others hold too
  std::shared_ptr<EndpointCounts::OfVersion> counts;
  int64_t since_ms = 0;  // it began to serve, in milliseconds of the epoch; 0 = not yet
};

}  // namespace dpi
