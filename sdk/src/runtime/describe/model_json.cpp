// What a model tells about itself, as JSON: the schema, how it runs, what it counted.
#include <dpi/kernels/op.hpp>

#include <algorithm>

#include "base/json_text.hpp"
#include "ops/table.hpp"
#include "runtime/describe/by_code.hpp"
#include "runtime/describe/stores_json.hpp"
#include "runtime/model/model.hpp"
#include "runtime/options/device_list.hpp"

namespace dpi {

namespace {

const char* name_of_range(int32_t kind) {
  return kind == DPI_RANGE_PEERS ? "peers" : kind == DPI_RANGE_HOST ? "host" : "none";
}

void write_slot(JsonWriter* w, const ResolveSchema::Feature& f) {
  w->field("slot", f.slot);
  w->field("part_slot", f.part_slot);
  if (f.spec.is_keyed()) {
    w->field("keys", f.spec.keys);
  } else {
    w->field("vocab_size", f.spec.vocab_size);
    w->field("out_of_range", name_of(f.spec.out_of_range));
  }
  if (f.spec.has_pad_id) w->field("pad_id", f.spec.pad_id);
  if (f.spec.out_of_range == OutOfRange::kOov) w->field("oov_id", f.spec.oov_id);
  if (f.spec.out_of_range == OutOfRange::kDefault || f.spec.missing == Missing::kDefault) {
    w->field("default_id", f.spec.default_id);
  }
  if (f.spec.has_missing_id) w->field("missing_id", f.spec.missing_id);
  if (f.spec.kind == FeatureKind::kSequence) {
    w->field("max_len", f.spec.max_len);
    w->field("keep", f.spec.keep_last ? "last" : "first");
    w->field("weighted", f.spec.weighted);
    if (f.spec.encoder.has_splitter) w->field("splitter", f.spec.encoder.splitter);
  }
}

void write_feature(JsonWriter* w, const ResolveSchema::Feature& f, size_t index) {
  w->begin_object();
  w->field("index", index);
  w->field("name", f.spec.name);
  w->field("kind", name_of(f.spec.kind));
  w->field("space", name_of(f.shared ? RowSpace::kShared : RowSpace::kItem));
  w->field("missing", name_of(f.spec.missing));
  w->field("encoder", !f.spec.encoder.empty());
  if (f.spec.is_slot()) {
    write_slot(w, f);
  } else {
    w->field("column", f.column);
    w->field("part_column", f.part_column);
    w->field("dim", f.spec.dim);
    w->field("default", f.spec.default_value);
  }
  w->end_object();
}

void write_part(JsonWriter* w, const char* name, int32_t slots, int32_t columns) {
  w->begin_object(name);
  w->field("slots", slots);
  w->field("dense_columns", columns);
  w->end_object();
}

void write_device(JsonWriter* w, const Engine& e) {
  w->begin_object("device");
  w->field("backend", e.api().name);
  w->field("name", e.caps().device_name);
  w->field("requested", e.options().device);
  w->field("note", e.device_note());
  w->end_object();
  w->begin_object("options");
  for (const auto& [key, value] : option_values(e.options())) w->field(key, value);
  w->end_object();
}

/// The devices that calls are spread over, and those that tables are.
void write_devices(JsonWriter* w, const Model& m) {
  const Engine& e = m.engine();
  w->begin_list("devices");
  for (const DeviceShare& d : e.memory().devices) {
    const auto& all = m.engines();
    const bool runs = std::any_of(all.begin(), all.end(),
                                  [&](const auto& one) { return one->caps().device_index == d.index; });
    w->begin_object();
    w->field("index", d.index);
    w->field("calls", runs);
    w->field("tables_bytes", d.tables);
    w->field("range_bytes", d.range);
    w->field("copies_bytes", d.copies);
    w->field("packed_weight_bytes", d.weights);
    w->field("contexts_bytes", d.contexts);
    w->end_object();
  }
  w->end_list();
  w->begin_object("table_range");
  w->field("kind", name_of_range(e.range().kind));
  w->field("devices", device_text(e.range().owners));
  w->field("bytes", e.forecast().range_bytes);
  w->field("why", e.range().why);
  w->end_object();
}

void write_memory(JsonWriter* w, const Model& m) {
  const Engine& e = m.engine();
  w->begin_object("memory");
  w->field("tables_host_bytes", m.table_bytes().host);
  w->field("tables_device_bytes", m.table_bytes().device);
  w->field("tables_shared_bytes", e.memory().shared);
  w->field("host_tier_bytes", e.memory().host_tier);
  w->field("host_tier_shared_bytes", e.memory().host_tier_shared);
  w->field("device_cache_bytes", e.memory().device_cache);
  w->field("weight_bytes", e.weight_bytes());
  w->field("flight_bytes", e.memory().flight);
  w->field("context_bytes", e.memory().context_own());
  w->field("in_flight", e.memory().flights);
  w->field("contexts", e.memory().contexts);
  w->field("parked_contexts", e.memory().parked);
  w->field("packed_weight_bytes", e.memory().weights);
  w->field("key_bytes", e.memory().keys);
  w->field("encoder_bytes", e.memory().encoders);
  w->field("model_bytes", e.memory().model);
  w->field("user_cache_bytes", e.memory().user_cache);
  w->field("loading_bytes", e.memory().loading);
  w->field("least_bytes", e.memory().least());
  w->field("most_bytes", e.memory().most());
  w->field("held_host_bytes", m.held().host());
  w->field("held_device_bytes", m.held().device());
  w->end_object();
}

void write_modes(JsonWriter* w, const Engine& e) {
  w->begin_object("graphs");
  w->field("on", e.uses_graphs());
  w->field("why_off", e.graphs_note());
  w->end_object();
  w->begin_object("small_batch");
  w->field("max_rows", e.small_batch() != nullptr ? e.small_batch_max_rows() : 0);
  w->field("report", e.small_batch_report());
  w->end_object();
}

void write_tables(JsonWriter* w, const Model& m) {
  const Engine& e = m.engine();
  w->begin_list("tables");
  for (size_t t = 0; t < e.plan().tables.size(); ++t) {
    const PlanTable& table = e.plan().tables[t];
    const uint64_t bytes = t < e.forecast().table_bytes.size() ? e.forecast().table_bytes[t] : 0;
    w->begin_object();
    w->field("name", table.name);
    w->field("rows", table.rows);
    w->field("dim", table.dim);
    w->field("dtype", name_of(table.dtype));
    w->field("derived", table.source < 0);
    w->field("bytes", bytes);
    w->field("tier", table.tiered ? "host" : "resident");
    const bool in_range = t < e.forecast().in_range.size() && e.forecast().in_range[t];
    w->field("in_range", in_range);
    const auto peers = e.store().peer_stats(static_cast<int32_t>(t));
    w->field("copied_rows", peers ? peers->copies : 0);
    // the model's devices hold one range and one tier, each for itself
    const int64_t more = in_range || table.tiered ? static_cast<int64_t>(m.engines().size()) - 1 : 0;
    const int64_t models = e.store().handover().share(static_cast<int32_t>(t)).models - more;
    w->field("shared", models > 1);
    w->field("models", std::max<int64_t>(models, 1));
    w->end_object();
  }
  w->end_list();
}

/// What lookups on all devices of the model met, and the slowest's fetches.
std::optional<TierStats> tier_stats_of(const Model& m, int32_t table) {
  std::optional<TierStats> sum;
  for (const auto& e : m.engines()) {
    const std::optional<TierStats> s = e->store().tier_stats(table);
    if (!s) continue;
    if (!sum) {
      sum = s;
      continue;
    }
    sum->hits += s->hits, sum->late += s->late, sum->absent += s->absent;
    sum->defaulted += s->defaulted, sum->dropped += s->dropped;
    sum->down += s->down, sum->expired += s->expired;
    sum->fetched += s->fetched, sum->missing += s->missing, sum->failed += s->failed, sum->bytes += s->bytes;
    sum->reads += s->reads, sum->read_ns += s->read_ns;
    sum->p50_ns = std::max(sum->p50_ns, s->p50_ns), sum->p99_ns = std::max(sum->p99_ns, s->p99_ns);
  }
  return sum;
}

void write_tier(JsonWriter* w, const std::string& name, const TierStats& s) {
  w->begin_object();
  w->field("name", name);
  w->field("hits", s.hits);
  w->field("late", s.late);
  w->field("absent", s.absent);
  w->field("defaulted", s.defaulted);
  w->field("dropped", s.dropped);
  w->field("down", s.down);
  w->field("fetched", s.fetched);
  w->field("missing", s.missing);
  w->field("failed", s.failed);
  w->field("expired", s.expired);
  w->field("fetched_bytes", s.bytes);
  w->field("reads", s.reads);
  w->field("read_us", s.read_ns / 1000);
  w->field("fetch_p50_us", static_cast<double>(s.p50_ns) / 1000);
  w->field("fetch_p99_us", static_cast<double>(s.p99_ns) / 1000);
  w->field("device_sampled", s.device_sampled);
  w->field("device_hits", s.device_hits);
  w->end_object();
}

/// Of a table that lies on several devices: what all that read it have met.
void write_peers(JsonWriter* w, const Model& m, int32_t table) {
  PeerStats sum;
  bool any = false;
  for (const auto& e : m.engines()) {
    const auto s = e->store().peer_stats(table);
    if (!s) continue;
    any = true;
    sum.own += s->own, sum.copied += s->copied, sum.remote += s->remote;
  }
  if (!any) return;
  w->begin_object();
  w->field("name", m.engine().plan().tables[static_cast<size_t>(table)].name);
  w->field("sampled", sum.own + sum.copied + sum.remote);
  w->field("own", sum.own);
  w->field("copied", sum.copied);
  w->field("remote", sum.remote);
  w->end_object();
}

void write_plan(JsonWriter* w, const Engine& e) {
  w->begin_object("plan");
  w->field("streams", e.plan().n_streams);
  w->field("events", e.plan().n_events);
  w->begin_list("notes");
  for (const std::string& note : e.plan().notes) w->value(note);
  w->end_list();
  w->begin_list("ops");
  for (size_t i = 0; i < e.plan().ops.size(); ++i) {
    const PlanOp& op = e.plan().ops[i];
    w->begin_object();
    w->field("name", op.name);
    w->field("kind", op_name(op.kind));
    w->field("stream", op.stream);
    w->field("branch", op.branch);
    w->field("implementation", e.op_report(i));
    w->end_object();
  }
  w->end_list();
  w->end_object();
}

}  // namespace

std::string Model::schema_json() const {
  JsonWriter w;
  w.begin_object();
  w.field("name", manifest_.name);
  const ResolveSchema& schema = engine().schema();
  w.begin_list("features");
  for (size_t i = 0; i < schema.features.size(); ++i) write_feature(&w, schema.features[i], i);
  w.end_list();
  const BatchColumns& l = schema.columns;
  w.field("slots", l.n_slots);
  w.field("dense_columns", l.n_columns);
  write_part(&w, "item", l.n_item_slots, l.n_item_columns);
  write_part(&w, "shared", l.n_shared_slots, l.n_shared_columns);
  w.begin_list("heads");
  for (const HeadSpec& h : manifest_.heads) {
    w.begin_object();
    w.field("name", h.name);
    w.field("activation", h.activation);
    w.field("has_logit", !h.logit.empty());
    w.end_object();
  }
  w.end_list();
  w.field_json("provenance", manifest_.provenance.empty() ? "null" : manifest_.provenance);
  w.end_object();
  return w.take();
}

std::string Model::info_json() const {
  const Engine& e = engine();
  JsonWriter w;
  w.begin_object();
  w.field("source", source_);
  w.field("content_digest", std::to_string(content_digest_));
  write_device(&w, e);
  write_memory(&w, *this);
  write_devices(&w, *this);
  write_modes(&w, e);
  write_tables(&w, *this);
  write_stores(&w, *this);
  write_plan(&w, e);
  w.end_object();
  return w.take();
}

std::string Model::counters_json() const {
  const CounterSums sums = counts();
  JsonWriter w;
  w.begin_object();
  w.field("calls", sums.calls);
  w.field("rows", sums.rows);
  w.field("nonfinite_rows", sums.nonfinite_rows);
  w.field("waits", sums.waits);
  const uint64_t longest_us = sums.longest_wait_ns / 1000;
  w.field("longest_wait_ms", static_cast<double>(longest_us) / 1000);
  w.field("parked", sums.parked);
  w.field("parked_now", sums.parked_now);
  w.field("user_hits", sums.users.hits);
  w.field("user_misses", sums.users.misses);
  w.field("user_repeats", sums.users.repeats);
  w.field("user_drops", sums.users.drops);
  uint64_t saturated = 0;
  for (const auto& e : engines_) saturated += e->saturated();
  w.field("saturated", saturated);
  w.begin_list("devices");
  for (const CounterSums::Device& d : sums.on) {
    w.begin_object();
    w.field("name", std::string(engine().api().name) + ':' + std::to_string(d.index));
    w.field("calls", d.calls);
    w.end_object();
  }
  w.end_list();
  write_by_code(&w, "errors", sums.errors);
  w.begin_list("features");
  for (size_t i = 0; i < manifest_.features.size(); ++i) {
    const FeatureSums& f = sums.by_feature[i];
    w.begin_object();
    w.field("name", manifest_.features[i].name);
    w.field("missing", f.missing);
    w.field("out_of_range", f.out_of_range);
    w.field("unknown", f.unknown);
    w.field("unparsable", f.unparsable);
    w.field("cut", f.cut);
    w.field("absent", f.absent);
    w.end_object();
  }
  w.end_list();
  w.begin_list("tiers");
  for (size_t t = 0; t < engine().plan().tables.size(); ++t) {
    if (const auto stats = tier_stats_of(*this, static_cast<int32_t>(t)))
      write_tier(&w, engine().plan().tables[t].name, *stats);
  }
  w.end_list();
  write_stores(&w, *this);
  w.begin_list("peers");
  for (size_t t = 0; t < engine().plan().tables.size(); ++t) write_peers(&w, *this, static_cast<int32_t>(t));
  w.end_list();
  w.end_object();
  return w.take();
}

}  // namespace dpi
