#include "tests/gpu/tools/tiers.hpp"

#include <cstring>
#include <fstream>

#include "tests/gpu/tools/tiers_managed.hpp"
#include "tests/gpu/tools/tiers_rows.hpp"

namespace dpi::gpu {

Memory::Memory(size_t bytes, Where where) : where_(where) {
  const size_t some = std::max<size_t>(bytes, 256);
  const int code = where == kDevice   ? layer::device_alloc(some, &p_)
                   : where == kPinned ? layer::pinned_alloc(some, &p_)
                                      : managed_alloc(some, &p_);
  need(code, where == kDevice ? "device memory" : where == kPinned ? "pinned memory" : "managed memory");
}

Memory::~Memory() {
  where_ == kDevice ? layer::device_free(p_) : where_ == kPinned ? layer::pinned_free(p_) : managed_free(p_);
}

Tables::Tables(const std::vector<int64_t>& sizes, int32_t d) : rows(sizes), dim(d) {
  for (const int64_t n : rows) {
    first.push_back(total);
    total += n;
  }
  if (total == 0 || total >= INT32_MAX || dim % 4 != 0) throw std::invalid_argument("no such tables");
  host = std::make_unique<Memory>(bytes(), Memory::kPinned);
  auto* at = host->as<float>();
  for (int64_t r = 0; r < total; ++r) {
    for (int32_t v = 0; v < dim; ++v) *at++ = element(r, v);
  }
}

Ids::Ids(const std::string& path, int64_t n_sets, int64_t n_batch, const Tables& tables)
    : sets(n_sets), batch(n_batch), fields(tables.fields()) {
  rows = std::make_unique<Memory>(static_cast<size_t>(sets * per_set()) * 4, Memory::kPinned);
  std::ifstream f(path, std::ios::binary);
  std::vector<int64_t> given(static_cast<size_t>(per_set()));
  for (int64_t s = 0; s < sets; ++s) {
    if (!f.read(reinterpret_cast<char*>(given.data()), static_cast<std::streamsize>(given.size() * 8)))
      throw std::runtime_error(path + ": expected " + std::to_string(sets * per_set() * 8) + " bytes");
    int32_t* const to = rows->as<int32_t>() + s * per_set();
    for (int64_t i = 0; i < per_set(); ++i) {
      const int64_t field = i % fields, id = given[static_cast<size_t>(i)];
      if (id < 0 || id >= tables.rows[static_cast<size_t>(field)])
        throw std::runtime_error(path + ": an id is no row of its table");
      to[field * batch + i / fields] = static_cast<int32_t>(tables.first[static_cast<size_t>(field)] + id);
    }
  }
}

Device::Device() {
  std::string why;
  if (layer::device_count(&why) == 0) throw std::runtime_error(why);
  need(layer::use(0), "device");
  layer::Properties p;
  need(layer::properties(0, &p), "properties");
  size = {p.multiprocessors, p.threads_per_multiprocessor};
  need(layer::stream_create(0, &stream), "stream");
  need(layer::event_create(true, &from), "event");
  need(layer::event_create(true, &to), "event");
}

Device::~Device() {
  layer::event_destroy(from);
  layer::event_destroy(to);
  layer::stream_destroy(stream);
}

Way::Way(const Device& device, const Tables& tables, const Ids& ids)
    : device_(device),
      tables_(tables),
      ids_(ids),
      columns_((int64_t{tables.fields()} * tables.dim + 63) / 64 * 64),
      out_(static_cast<size_t>(ids.batch * columns_) * 4) {}

std::vector<float> Way::read() const {
  std::vector<float> all(static_cast<size_t>(ids_.batch * columns_));
  need(layer::copy_now(all.data(), out_.as<void>(), all.size() * 4), "read");
  return all;
}

void Way::clear() const {
  const std::vector<char> nan(static_cast<size_t>(ids_.batch * columns_) * 4, '\xFF');
  need(layer::copy_now(out_.as<void>(), nan.data(), nan.size()), "clear");
}

}  // namespace dpi::gpu
