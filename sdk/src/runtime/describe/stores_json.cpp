#include "runtime/describe/stores_json.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/code_name.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

namespace {

void keep_later(const StoreFailure& other, StoreFailure* to) {
  if (other.at_ms > to->at_ms) *to = other;
}

/// Down when one of the two is, since when the first of them was.
template <class Health>
void add_health(const Health& other, Health* to) {
  if (other.down != to->down) {
    if (other.down) to->since_ms = other.since_ms;
  } else {
    to->since_ms = to->down ? std::min(to->since_ms, other.since_ms) : std::max(to->since_ms, other.since_ms);
  }
  to->down = to->down || other.down;
  to->failures += other.failures;
  keep_later(other.last, &to->last);
}

void add_node(const StoreNode& other, std::vector<StoreNode>* to) {
  const auto same = [&](const StoreNode& n) { return n.address == other.address; };
  const auto at = std::find_if(to->begin(), to->end(), same);
  if (at == to->end()) return to->push_back(other);
  add_health(other, &*at);
  at->reconnects += other.reconnects;
  at->redirects += other.redirects;
  at->open = at->open || other.open;
  at->times_down += other.times_down, at->probes += other.probes;
}

/// The devices of a model have a tier each, over the same stores.
std::vector<StoreStatus> stores_of(const Model& m) {
  std::vector<StoreStatus> all;
  for (const auto& e : m.engines()) {
    for (const StoreStatus& s : e->store().stores()) {
      const auto same = [&](const StoreStatus& t) { return t.name.name == s.name.name; };
      const auto at = std::find_if(all.begin(), all.end(), same);
      if (at == all.end()) {
        all.push_back(s);
        continue;
      }
      add_health(s, &*at);
      at->times_down += s.times_down, at->probes += s.probes;
      at->queued += s.queued, at->running += s.running;
      at->oldest_ns = std::max(at->oldest_ns, s.oldest_ns);
      for (const StoreNode& n : s.nodes) add_node(n, &at->nodes);
    }
  }
  return all;
}

template <class Health>
void write_health(JsonWriter* w, const Health& h) {
  const bool failed = h.last.code != Code::kOk;
  w->field("up", !h.down);
  w->field("since_ms", h.since_ms);
  w->field("failures", h.failures);
  w->field("last_error", failed ? code_name(h.last.code) : "");
  w->field("last_error_text", h.last.text);
  w->field("last_error_ms", h.last.at_ms);
}

void write_store(JsonWriter* w, const StoreStatus& s) {
  w->begin_object();
  w->field("name", s.name.name);
  w->field("place", s.name.place);
  write_health(w, s);
  w->field("times_down", s.times_down);
  w->field("probes", s.probes);
  w->field("queued", s.queued);
  w->field("running", s.running);
  w->field("oldest_fetch_ms", static_cast<double>(s.oldest_ns) / 1e6);
  w->begin_list("nodes");
  for (const StoreNode& n : s.nodes) {
    w->begin_object();
    w->field("name", n.address);
    write_health(w, n);
    w->field("reconnects", n.reconnects);
    w->field("redirects", n.redirects);
    w->field("open", n.open);
    w->field("times_down", n.times_down);
    w->field("probes", n.probes);
    w->end_object();
  }
  w->end_list();
  w->end_object();
}

}  // namespace

void write_stores(JsonWriter* w, const Model& m) {
  w->begin_list("stores");
  for (const StoreStatus& s : stores_of(m)) write_store(w, s);
  w->end_list();
}

}  // namespace dpi
