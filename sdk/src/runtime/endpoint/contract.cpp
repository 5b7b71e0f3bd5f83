#include "runtime/endpoint/contract.hpp"

#include <algorithm>

namespace dpi {

namespace {

Status broken(const std::string& text) {
  return unsupported("incompatible with the serving version: " + text);
}

/// The first difference that no version may have, as text; empty if there is none.
std::string other_shape(const FeatureSpec& a, const FeatureSpec& b) {
  const auto differs = [](const char* what, const std::string& was, const std::string& is) {
    return std::string(what) + " is " + is + ", was " + was;
  };
  if (a.kind != b.kind) return differs("its kind", name_of(a.kind), name_of(b.kind));
  if (a.space != b.space) return differs("its part", name_of(a.space), name_of(b.space));
  if (a.dim != b.dim) return differs("dim", std::to_string(a.dim), std::to_string(b.dim));
  if (a.is_keyed() != b.is_keyed())
    return b.is_keyed() ? "it takes keys, callers give ids" : "it takes ids, callers give keys";
  if (a.weighted && !b.weighted) return "weights are refused now";
  if (!a.encoder.empty() && b.encoder.empty()) return "it has no encoder, callers give raw values";
  return {};
}

/// The ids that `a` takes and `b` would refuse, as text; empty if there are none.
std::string refused_ids(const FeatureSpec& a, const FeatureSpec& b) {
  if (!a.is_keyed() && b.out_of_range == OutOfRange::kError) {
    if (a.out_of_range != OutOfRange::kError) return "ids outside the vocabulary are refused now";
    if (b.vocab_size < a.vocab_size)
      return "its vocabulary has " + std::to_string(b.vocab_size) + " ids, had " +
             std::to_string(a.vocab_size) + ", and ids outside are refused";
    const bool missing_there = a.has_missing_id && a.missing != Missing::kError;
    const bool known = (b.has_missing_id && b.missing_id == a.missing_id) ||
                       (a.missing_id >= 0 && a.missing_id < b.vocab_size);
    if (missing_there && !known)
      return "id " + std::to_string(a.missing_id) + " meant missing and is refused now";
  }
  const bool same_missing = a.has_missing_id && a.missing == Missing::kError && a.missing_id == b.missing_id;
  if (b.has_missing_id && b.missing == Missing::kError && !same_missing)
    return "id " + std::to_string(b.missing_id) + " means missing and is refused now";
  return {};
}

std::string change(const FeatureSpec& a, const FeatureSpec& b) {
  if (std::string shape = other_shape(a, b); !shape.empty()) return shape;
  if (a.missing != Missing::kError && b.missing == Missing::kError) return "a missing value is refused now";
  return a.is_slot() ? refused_ids(a, b) : std::string();
}

}  // namespace

Contract contract_of(const Manifest& manifest) {
  Contract c;
  c.features = manifest.features;
  for (const HeadSpec& head : manifest.heads) c.heads.push_back(head.name);
  return c;
}

Status check_contract(const Contract& serving, const Contract& next) {
  if (serving.features.size() != next.features.size())
    return broken(std::to_string(next.features.size()) + " features, callers expect " +
                  std::to_string(serving.features.size()));
  for (size_t i = 0; i < serving.features.size(); ++i) {
    const FeatureSpec &a = serving.features[i], &b = next.features[i];
    if (a.name != b.name)
      return broken("feature " + std::to_string(i) + " is '" + b.name + "', was '" + a.name + "'");
    if (const std::string what = change(a, b); !what.empty())
      return broken("feature '" + a.name + "': " + what).at(-1, static_cast<int64_t>(i));
  }
  if (serving.heads.size() != next.heads.size())
    return broken(std::to_string(next.heads.size()) + " heads, callers expect " +
                  std::to_string(serving.heads.size()));
  for (size_t i = 0; i < serving.heads.size(); ++i) {
    if (serving.heads[i] != next.heads[i])
      return broken("head " + std::to_string(i) + " is '" + next.heads[i] + "', was '" + serving.heads[i] +
                    "'");
  }
  return {};
}

}  // namespace dpi
