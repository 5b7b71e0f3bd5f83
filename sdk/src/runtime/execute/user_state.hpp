// A flight's side of the user cache: looks the users of a chunk up, gives ops of the users' part their values
// in place of running them, and keeps what is computed of users that are new. A chunk has all of its users
// from the cache, or computes all. One thread at a time; allocates nothing after it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/engine/engine.hpp"
#include "runtime/execute/user_counts.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

class UserState {
 public:
  /// engine: with a user cache; outlives this. users: most of a chunk.
  UserState(const Engine& engine, int64_t users);
  ~UserState() { end(false); }
  UserState(const UserState&) = delete;
  UserState& operator=(const UserState&) = delete;

  /// Before the ops of a chunk whose input lies in a block of `map`. Without a map each row has a user of its
  /// own, and nothing is looked for.
  void begin(const InputMap& map, const ResolvedRows& rows, const std::byte* block);
  /// The op is not to run: give() writes what others read of it.
  bool has(size_t op) const { return have_ && part_.ops[op].of_user; }
  void give(size_t op, const dpi_op_call& call) const;
  /// After an op has run.
  void keep(size_t op, const dpi_op_call& call) const;
  /// After the ops: whether all of them ran, else nothing is counted. Entries go back.
  void end(bool ran);

  UserCounts counts() const { return counts_; }

 private:
  struct User {
    int64_t entry = UserCache::kNone;
    bool found = false;
  };
  void look_up(const InputMap& map, const std::byte* block, User* user, int64_t number);
  void give_back(const User& user, bool ran);

  UserCache& cache_;
  const ResolveSchema& schema_;
  const UserPart& part_;
  std::vector<std::byte> key_;
  std::vector<User> users_;
  size_t n_ = 0;  // of the chunk
  bool have_ = false;
  UserCounts counts_;
};

}  // namespace dpi
