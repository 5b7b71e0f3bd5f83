#include "runtime/execute/user_state.hpp"

#include <algorithm>
#include <cstring>

namespace dpi {

namespace {

/// Where user u's row of an output starts.
std::byte* row_of(const kernels::Tensor& t, size_t u) {
  return reinterpret_cast<std::byte*>(t.data) +
         static_cast<int64_t>(u) * t.row_stride * kernels::dtype_bytes(t.dtype);
}

}  // namespace

UserState::UserState(const Engine& engine, int64_t users)
    : cache_(*engine.user_cache()),
      schema_(engine.schema()),
      part_(engine.user_part()),
      key_(static_cast<size_t>(cache_.sizes().key_bytes)),
      users_(static_cast<size_t>(users)) {}

void UserState::look_up(const InputMap& map, const std::byte* block, User* user, int64_t number) {
  *user = {};
  const std::span<const std::byte> key = user_key(schema_, map, block, number, key_);
  if (key.empty()) return;  // no room for so long a history
  user->entry = cache_.find(key);
  user->found = user->entry != UserCache::kNone;
  if (!user->found) user->entry = cache_.claim(key);
}

void UserState::begin(const InputMap& map, const ResolvedRows& rows, const std::byte* block) {
  end(false);
  if (!rows.has_map) return;
  n_ = std::min(static_cast<size_t>(rows.rows.shared), users_.size());
  for (size_t u = 0; u < n_; ++u) look_up(map, block, &users_[u], static_cast<int64_t>(u));
  have_ = n_ > 0 && std::all_of(users_.begin(), users_.begin() + static_cast<ptrdiff_t>(n_),
                                [](const User& u) { return u.found; });
}

void UserState::give(size_t op, const dpi_op_call& call) const {
  for (const UserPart::Kept& k : part_.ops[op].kept) {
    const kernels::Tensor& t = call.outputs[k.output];
    for (size_t u = 0; u < n_; ++u)
      std::memcpy(row_of(t, u), cache_.values(users_[u].entry) + k.offset, static_cast<size_t>(k.bytes));
  }
}

void UserState::keep(size_t op, const dpi_op_call& call) const {
  if (n_ == 0 || have_) return;
  for (const UserPart::Kept& k : part_.ops[op].kept) {
    const kernels::Tensor& t = call.outputs[k.output];
    for (size_t u = 0; u < n_; ++u) {
      if (users_[u].entry == UserCache::kNone || users_[u].found) continue;
      std::memcpy(cache_.values(users_[u].entry) + k.offset, row_of(t, u), static_cast<size_t>(k.bytes));
    }
  }
}

void UserState::end(bool ran) {
  for (size_t u = 0; u < n_; ++u) give_back(users_[u], ran);
  n_ = 0;
  have_ = false;
}

void UserState::give_back(const User& user, bool ran) {
  if (user.entry == UserCache::kNone) {
    counts_.drops += ran ? 1 : 0;
  } else if (user.found) {
    cache_.release(user.entry);
    (have_ ? counts_.hits : counts_.repeats) += ran ? 1 : 0;
  } else if (ran) {
    cache_.publish(user.entry);
    ++counts_.misses;
  } else {
    cache_.abandon(user.entry);
  }
}

}  // namespace dpi
