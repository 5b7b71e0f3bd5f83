#include "store/tiered/plugin_source.hpp"

#include <algorithm>
#include <cstring>

namespace dpi::tiered {
namespace {

constexpr int32_t kMostNodes = 64;  // that are told of

/// A server may quote what it was sent.
void hide(const std::string& secret, std::string* text) {
  for (size_t at = 0; !secret.empty() && (at = text->find(secret, at)) != std::string::npos; at += 3)
    text->replace(at, secret.size(), "***");
}

dpi_store_table described(const StoredTable& t) {
  return {t.name.c_str(), t.content.c_str(), t.rows,          t.row_bytes,
          t.dim,          t.dtype,           t.keyed ? 1 : 0, t.stale ? 1 : 0};
}

void log_from_store(void* sink, int32_t level, const char* component, const char* message) {
  static_cast<LogSink*>(sink)->write(static_cast<LogLevel>(std::clamp(level, 0, 3)), component, message);
}

}  // namespace

Result<std::unique_ptr<PluginSource>> PluginSource::open(const store::StorePlugin& plugin,
                                                         const StoreRequest& request) {
  std::vector<dpi_store_setting> settings;
  settings.reserve(request.settings.size());
  for (const auto& [key, value] : request.settings) settings.push_back({key.c_str(), value.c_str()});
  std::vector<dpi_store_table> tables;
  tables.reserve(request.tables.size());
  for (const StoredTable& t : request.tables) tables.push_back(described(t));
  dpi_store_options options{};
  options.struct_size = sizeof(options);
  options.mode = request.mode;
  options.settings = settings.data();
  options.n_settings = static_cast<int32_t>(settings.size());
  options.threads = request.threads;
  if (request.log != nullptr) options.log = log_from_store, options.log_sink = request.log;
  std::unique_ptr<PluginSource> source(new PluginSource(plugin.api));
  source->name_.name = plugin.api.name;
  for (const auto& [key, value] : request.settings) {
    if (key == "path" || key == "address") source->name_.place = value;
    if (key == "password") source->password_ = value;
  }
  dpi_store_error err{};
  const int32_t code =
      plugin.api.open(&options, tables.data(), static_cast<int32_t>(tables.size()), &source->handle_, &err);
  DPI_RETURN_IF_ERROR(source->told(code, err));
  for (const StoredTable& t : request.tables) source->stale_.push_back(t.stale);
  return source;
}

PluginSource::~PluginSource() {
  if (handle_ != nullptr) api_.close(handle_);
}

/// "store 'rocksdb': /srv/rows: ...". A code that is none of ours is an error of the plugin.
Status PluginSource::told(int32_t code, const dpi_store_error& err) const {
  if (code == 0) return {};
  const bool known = code > 0 && code <= static_cast<int32_t>(Code::kInternal);
  std::string message(err.message, strnlen(err.message, sizeof(err.message)));
  hide(password_, &message);
  std::string text = "store '" + std::string(api_.name) + "': " + message;
  if (message.empty()) text += "code " + std::to_string(code) + " and no text";
  return Status(known ? static_cast<Code>(code) : Code::kInternal, std::move(text)).native(err.native_code);
}

Status PluginSource::fetch(const FetchRequest& r) {
  const dpi_store_fetch fetch{r.table,       static_cast<int64_t>(r.keys.size()),
                              r.keys.data(), reinterpret_cast<unsigned char* const*>(r.rows),
                              r.found,       r.deadline_ns,
                              r.failed};
  dpi_store_error err{};
  return told(api_.fetch(handle_, &fetch, &err), err);
}

int64_t PluginSource::sequence(int32_t table) {
  if (!stale_[static_cast<size_t>(table)]) return -1;
  const auto found = stat(table);
  return found.ok() ? found->sequence : -1;
}

static_assert(kRoutes == DPI_STORE_ROUTES);

int32_t PluginSource::route(int32_t table, int64_t key) {
  return api_.route != nullptr ? std::clamp(api_.route(handle_, table, key), 0, kRoutes - 1) : 0;
}

std::vector<StoreNode> PluginSource::nodes(int32_t /*store*/) {
  if (api_.nodes == nullptr) return {};
  std::vector<dpi_store_node> found(kMostNodes);
  const int32_t n = std::clamp(api_.nodes(handle_, found.data(), kMostNodes), 0, kMostNodes);
  std::vector<StoreNode> nodes;
  for (int32_t i = 0; i < n; ++i) {
    const dpi_store_node& from = found[static_cast<size_t>(i)];
    StoreNode& to = nodes.emplace_back();
    to.address.assign(from.address, strnlen(from.address, sizeof from.address));
    to.down = from.down != 0;
    to.route = std::clamp(from.route, 0, kRoutes - 1);
    to.since_ms = from.since_ms;
    to.failures = from.failures, to.reconnects = from.reconnects, to.redirects = from.redirects;
    const bool known = from.last_code >= 0 && from.last_code <= static_cast<int32_t>(Code::kInternal);
    to.last.code = known ? static_cast<Code>(from.last_code) : Code::kInternal;
    to.last.text.assign(from.last_error, strnlen(from.last_error, sizeof from.last_error));
    hide(password_, &to.last.text);
    to.last.at_ms = from.last_ms;
  }
  return nodes;
}

Status PluginSource::write(int32_t table, std::span<const int64_t> keys, std::span<const std::byte> rows,
                           uint64_t digest) {
  dpi_store_error err{};
  const int32_t code =
      api_.write(handle_, table, keys.data(), reinterpret_cast<const unsigned char*>(rows.data()),
                 static_cast<int64_t>(keys.size()), digest, &err);
  return told(code, err);
}

Status PluginSource::complete(int32_t table) {
  dpi_store_error err{};
  return told(api_.complete(handle_, table, &err), err);
}

Status PluginSource::drop(int32_t table) {
  dpi_store_error err{};
  return told(api_.drop(handle_, table, &err), err);
}

Result<dpi_store_stat> PluginSource::stat(int32_t table) {
  dpi_store_stat found{};
  dpi_store_error err{};
  DPI_RETURN_IF_ERROR(told(api_.stat(handle_, table, &found, &err), err));
  return found;
}

Result<int64_t> PluginSource::begin_update(int32_t table, const StoredTable& next, uint64_t id) {
  const dpi_store_table to = described(next);
  int64_t done = 0;
  dpi_store_error err{};
  DPI_RETURN_IF_ERROR(told(api_.begin_update(handle_, table, &to, id, &done, &err), err));
  return done;
}

Status PluginSource::update(int32_t table, std::span<const int64_t> keys, std::span<const std::byte> rows,
                            int64_t done) {
  dpi_store_error err{};
  const auto* bytes = rows.empty() ? nullptr : reinterpret_cast<const unsigned char*>(rows.data());
  const int32_t code =
      api_.update(handle_, table, keys.data(), bytes, static_cast<int64_t>(keys.size()), done, &err);
  return told(code, err);
}

Status PluginSource::end_update(int32_t table) {
  dpi_store_error err{};
  return told(api_.end_update(handle_, table, &err), err);
}

Result<dpi_store_loss> PluginSource::count(int32_t table) {
  dpi_store_loss found{};
  dpi_store_error err{};
  DPI_RETURN_IF_ERROR(told(api_.count(handle_, table, &found, &err), err));
  return found;
}

Status PluginSource::begin_repair(int32_t table) {
  dpi_store_error err{};
  return told(api_.begin_repair(handle_, table, &err), err);
}

Status PluginSource::repair(int32_t table, std::span<const int64_t> keys, std::span<const std::byte> rows) {
  dpi_store_error err{};
  const auto* bytes = rows.empty() ? nullptr : reinterpret_cast<const unsigned char*>(rows.data());
  return told(api_.repair(handle_, table, keys.data(), bytes, static_cast<int64_t>(keys.size()), &err), err);
}

Status PluginSource::end_repair(int32_t table) {
  dpi_store_error err{};
  return told(api_.end_repair(handle_, table, &err), err);
}

}  // namespace dpi::tiered
