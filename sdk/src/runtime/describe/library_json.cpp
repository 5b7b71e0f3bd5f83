#include "runtime/describe/library_json.hpp"

#include "base/json_text.hpp"

namespace dpi {
namespace {

void write_folders(const std::vector<backend::PluginFolder>& folders, JsonWriter* w) {
  w->begin_list("searched");
  for (const backend::PluginFolder& folder : folders) {
    w->begin_object();
    w->field("folder", folder.path);
    w->field("origin", folder.origin);
    if (!folder.problem.empty()) w->field("problem", folder.problem);
    if (!folder.advice.empty()) w->field("advice", folder.advice);
    w->end_object();
  }
  w->end_list();
}

}  // namespace

std::string build_info_json(const BuildInfo& info) {
  JsonWriter w;
  w.begin_object();
  w.field("version", info.version);
  w.field("path", info.path);
  w.field("compiler", info.compiler);
  w.field("bundle_format", "2.2");
  w.field("backend_abi", info.backend_abi);
  w.field("license", "Apache-2.0");
  w.begin_list("backends");
  for (const std::string& name : backend::built_in_backends()) w.value(name);
  w.end_list();
  w.begin_list("libraries");
  for (const LinkedLibrary& library : info.libraries) {
    w.begin_object();
    w.field("name", library.name);
    w.field("version", library.version);
    w.field("license", library.license);
    w.field("linked", library.linked);
    w.end_object();
  }
  w.end_list();
  w.end_object();
  return w.take();
}

std::string devices_json(const std::vector<backend::BackendReport>& reports) {
  JsonWriter w;
  w.begin_list();
  for (const backend::BackendReport& r : reports) {
    w.begin_object();
    w.field("backend", r.name);
    w.field("usable", r.usable);
    if (!r.path.empty()) w.field("path", r.path);
    if (!r.reason.empty()) w.field("reason", r.reason);
    if (r.usable) {
      w.field("device", r.caps.device_name);
      w.field("memory_total", r.caps.memory_total);
      w.field("memory_free", r.caps.memory_free);
      w.field("max_streams", r.caps.max_streams);
    }
    if (!r.folders.empty()) write_folders(r.folders, &w);
    w.end_object();
  }
  w.end_list();
  return w.take();
}

}  // namespace dpi
