// The contract between an endpoint and its callers, whichever version answers: a batch that the serving
// version takes, the next one takes too, and its scores stand in the same places. So features are the same in
// number, order, name, kind and shape, and heads in number, order and name. A batch does not see the rest,
// which may differ: ops, tables, weights, encoders, and
//   vocabularies   may grow. Where ids outside are refused (out_of_range error) they may not shrink, nor may
//                  an id that stood for "missing" become one that is refused
//   rules          may become milder: error -> a rule that takes the value, never the other way
//   max_len        any: longer bags are cut
//   encoders       may come, but not go: raw values that could be given can be given
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/manifest.hpp"

namespace dpi {

struct Contract {
  std::vector<FeatureSpec> features;
  std::vector<std::string> heads;
};

Contract contract_of(const Manifest& manifest);

/// kUnsupported, naming the first feature or head where `next` breaks what callers of `serving` rely on.
Status check_contract(const Contract& serving, const Contract& next);

}  // namespace dpi
