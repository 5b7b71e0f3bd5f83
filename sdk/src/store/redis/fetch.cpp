// Keys -> rows: keys grouped by partition, HMGET of at most a thousand each, to all servers at once.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/clock.hpp"
#include "store/redis/store.hpp"

namespace dpi::redis {
namespace {

// A server does nothing else while it answers one command.
constexpr size_t kMostFields = 1000;

// Of so few keys of a partition its seal would be a good part of the work: it is asked for with those that
// turn out to be absent.
constexpr size_t kKeysWithSeal = 8;

// Keys that are asked for in one go.
struct Batch {
  struct Piece {
    int64_t partition;
    size_t first, count;  // in `which`
    bool sealed;          // its seal is asked for
  };
  std::vector<int32_t> which;  // positions in the request, those of one partition side by side
  std::vector<Piece> pieces;
  std::vector<RowsSink> sinks;
  std::vector<Command> commands;

  std::span<const int32_t> keys_of(const Piece& p) const { return {which.data() + p.first, p.count}; }
};

Batch all_keys(const Table& t, const dpi_store_fetch& r) {
  std::vector<uint64_t> sorted;
  sorted.reserve(static_cast<size_t>(r.n));
  for (int64_t i = 0; i < r.n; ++i) {
    if (!t.keyed() && (r.keys[i] < 0 || r.keys[i] >= t.rows())) continue;  // there is no such row
    sorted.push_back(static_cast<uint64_t>(t.partition_of(r.keys[i])) << 32 | static_cast<uint64_t>(i));
  }
  std::sort(sorted.begin(), sorted.end());
  Batch batch;
  batch.which.reserve(sorted.size());
  for (const uint64_t s : sorted) {
    const auto partition = static_cast<int64_t>(s >> 32);
    auto& pieces = batch.pieces;
    if (pieces.empty() || pieces.back().partition != partition || pieces.back().count == kMostFields)
      pieces.push_back({partition, batch.which.size(), 0, false});
    ++pieces.back().count;
    pieces.back().sealed = t.keyed() && pieces.back().count >= kKeysWithSeal;
    batch.which.push_back(static_cast<int32_t>(s & 0xffffffff));
  }
  return batch;
}

std::string hmget(const Table& t, const Batch::Piece& piece, const int64_t* keys,
                  std::span<const int32_t> which) {
  const std::string key = t.partition_key(piece.partition);
  std::string out;
  out.reserve(key.size() + 64 + which.size() * 14);
  append_count(out, 2 + which.size() + (piece.sealed ? 1 : 0));
  append_argument(out, "HMGET");
  append_argument(out, key);
  char field[14] = {'$', '8', '\r', '\n'};
  field[12] = '\r';
  field[13] = '\n';
  for (const int32_t i : which) {
    std::memcpy(field + 4, Field(keys[i]).bytes, 8);
    out.append(field, sizeof field);
  }
  if (piece.sealed) append_argument(out, kSealField);
  return out;
}

Status ask(Exchange& exchange, const Table& t, const dpi_store_fetch& r, bool from_replica, Batch* batch) {
  batch->sinks.reserve(batch->pieces.size());  // commands keep their addresses
  batch->commands.resize(batch->pieces.size());
  for (size_t i = 0; i < batch->pieces.size(); ++i) {
    const Batch::Piece& piece = batch->pieces[i];
    const auto which = batch->keys_of(piece);
    Command& c = batch->commands[i];
    c.slot = t.partition_slot(piece.partition);
    c.text = hmget(t, piece, r.keys, which);
    c.sink = &batch->sinks.emplace_back(t.form(), which, r.rows, piece.sealed);
    c.from_replica = from_replica;
  }
  return r.failed != nullptr ? exchange.run_each(batch->commands) : exchange.run(batch->commands);
}

// Rows that came are right, since their table's name says what they are. That a key has none is believed of a
// whole partition only: it may be gone, or on its way to a replica. One that was repaired with the rows of an
// update does not know which keys had rows before.
bool settled(const Table& t, const RowsSink& sink) {
  if (sink.absent().empty()) return true;
  const int64_t at = t.sealed_at(sink.seal());
  return at >= 0 && (at <= t.sequence() || t.stale());
}

Status check(const Table& t, const Batch::Piece& piece, const RowsSink& sink) {
  const std::string place = "partition " + std::to_string(piece.partition);
  if (sink.wrong_length() >= 0)
    return t.error(Code::kBadModel, place + " has a value of " + std::to_string(sink.wrong_length()) +
                                        " bytes, expected rows of " + std::to_string(t.row_bytes()) +
                                        "; drop it and load it again with `dpi store load`");
  if (settled(t, sink)) return {};
  if (const int64_t at = t.sealed_at(sink.seal()); at > t.sequence())
    return t.error(Code::kBadModel, place + " has the rows of update " + std::to_string(at) +
                                        " since it was repaired, the model's content " +
                                        t.content().substr(0, 12) + "... is of update " +
                                        std::to_string(t.sequence()) + kUpdatedHint);
  return t.error(Code::kIo,
                 place +
                     " is gone or not whole: it was evicted, a server came back without its data, or the "
                     "table was dropped; " +
                     kRepairIt);
}

// Keys without an answer: an error of all of them where the request does not ask which they are.
class Failures {
 public:
  Failures(const Store& store, const Table& t, uint64_t* bits) : store_(store), table_(t), bits_(bits) {}

  // Of piece i of a batch.
  Status add(const Batch& batch, size_t i, Status why) {
    if (why.ok()) return why;
    why = store_.within_partition(std::move(why), table_, batch.pieces[i].partition);
    if (bits_ == nullptr) return why;
    mark(batch, i);
    if (first_.ok()) first_ = std::move(why);
    return {};
  }
  // Of what the servers have not answered.
  Status add_unanswered(const Batch& batch, Status why) {
    if (why.ok() || bits_ == nullptr) return why;
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      if (!batch.commands[i].done) mark(batch, i);
    }
    if (first_.ok()) first_ = std::move(why);
    return {};
  }
  const Status& first() const { return first_; }

 private:
  void mark(const Batch& batch, size_t i) const {
    for (const int32_t key : batch.keys_of(batch.pieces[i])) bits_[key / 64] |= uint64_t{1} << (key % 64);
  }
  const Store& store_;
  const Table& table_;
  uint64_t* const bits_;
  Status first_;
};

// What is not settled and may be by the master with the seal.
Result<Batch> second_look(const Table& t, const Batch& first, Failures* failures) {
  Batch second;
  for (size_t i = 0; i < first.pieces.size(); ++i) {
    if (!first.commands[i].done) continue;
    const RowsSink& sink = first.sinks[i];
    const bool helps = first.commands[i].by_replica || (t.keyed() && !first.pieces[i].sealed);
    if (sink.wrong_length() >= 0 || (!settled(t, sink) && !helps)) {
      DPI_RETURN_IF_ERROR(failures->add(first, i, check(t, first.pieces[i], sink)));
      continue;
    }
    if (settled(t, sink)) continue;
    second.pieces.push_back(
        {first.pieces[i].partition, second.which.size(), sink.absent().size(), t.keyed()});
    second.which.insert(second.which.end(), sink.absent().begin(), sink.absent().end());
  }
  return second;
}

void tell_found(const Batch& batch, uint64_t* found) {
  for (const int32_t i : batch.which) found[i / 64] |= uint64_t{1} << (i % 64);
  for (const RowsSink& sink : batch.sinks) {
    for (const int32_t i : sink.absent()) found[i / 64] &= ~(uint64_t{1} << (i % 64));
    for (const int32_t i : sink.gone()) found[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
}

// Rows of updates behind the content that the reader asked for; the last one's key and its update.
struct Newer {
  int64_t rows = 0, sequence = 0;
  int32_t at = -1;

  void add(const Batch& batch) {
    for (size_t i = 0; i < batch.sinks.size(); ++i) {
      if (!batch.commands[i].done) continue;
      const RowsSink& sink = batch.sinks[i];
      rows += sink.newer();
      if (sink.newest() > sequence) sequence = sink.newest(), at = sink.newer_at();
    }
  }
};

}  // namespace

// What a model reads that runs while its table becomes another one.
Status Store::updated_since(const Table& t, int64_t key, int64_t sequence) {
  return t.error(Code::kBadModel, "the row of key " + std::to_string(key) + " is of update " +
                                      std::to_string(sequence) + ", the model's content " +
                                      t.content().substr(0, 12) + "... is of update " +
                                      std::to_string(t.sequence()) + kUpdatedHint);
}

Status Store::fetch(const dpi_store_fetch& r) {
  if (r.table < 0 || r.table >= static_cast<int32_t>(tables_.size()) || r.n < 0 ||
      r.n > std::numeric_limits<int32_t>::max())
    return invalid_argument("redis: no such table or number of keys");
  if (looks_) return invalid_argument("redis: is not open for reading");
  const Table& t = tables_[static_cast<size_t>(r.table)];
  const auto look = [&]() -> Status {
    if (writes_) return t.error(Code::kInvalidArgument, "is open for writing");
    const Settings& s = cluster_.settings();
    Exchange exchange(cluster_, r.deadline_ns != 0 ? r.deadline_ns : monotonic_ns() + s.timeout_ns, false);
    Batch first = all_keys(t, r);
    // A replica may be behind an update that its master has had.
    Failures failures(*this, t, r.failed);
    Status asked = ask(exchange, t, r, s.replicas && t.sequence() == 0, &first);
    DPI_RETURN_IF_ERROR(failures.add_unanswered(first, std::move(asked)));
    DPI_ASSIGN_OR_RETURN(Batch second, second_look(t, first, &failures));
    if (!second.pieces.empty())
      DPI_RETURN_IF_ERROR(failures.add_unanswered(second, ask(exchange, t, r, false, &second)));
    for (size_t i = 0; i < second.pieces.size(); ++i) {
      if (second.commands[i].done)
        DPI_RETURN_IF_ERROR(failures.add(second, i, check(t, second.pieces[i], second.sinks[i])));
    }
    Newer newer;
    newer.add(first);
    newer.add(second);
    if (newer.rows > 0) {
      if (!t.stale()) {
        if (r.failed != nullptr) std::fill_n(r.failed, (r.n + 63) / 64, 0);
        return updated_since(t, r.keys[newer.at], newer.sequence);
      }
      newer_[static_cast<size_t>(r.table)].fetch_add(newer.rows, std::memory_order_relaxed);
    }
    tell_found(first, r.found);
    tell_found(second, r.found);
    return failures.first();
  };
  Status s = look();
  return s.ok() ? s : within(std::move(s), t);
}

int32_t Store::route(int32_t table, int64_t key) const {
  const Table& t = tables_[static_cast<size_t>(table)];
  return cluster_.route_of(t.partition_slot(t.partition_of(key)));
}

int32_t Store::nodes(dpi_store_node* to, int32_t room) const {
  const std::shared_ptr<const Topology> topology = cluster_.topology();
  const auto n = static_cast<int32_t>(topology->nodes.size());
  for (int32_t i = 0; i < std::min(n, room); ++i) topology->nodes[static_cast<size_t>(i)]->tell(to + i);
  return n;
}

}  // namespace dpi::redis
