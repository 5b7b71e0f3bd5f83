// How the stores below the host tiers of a model are, as JSON: counters, info and metrics have it.
#pragma once

#include "base/json_text.hpp"

namespace dpi {

class Model;

/// "stores": one object per store.
void write_stores(JsonWriter* w, const Model& m);

}  // namespace dpi
