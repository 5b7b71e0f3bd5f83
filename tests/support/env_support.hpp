// Environments and what they tell, for the tests of the C API.
#pragma once

#include <filesystem>
#include <fstream>
#include <mutex>

#include "support/capi_support.hpp"

namespace dpi::test {

struct EnvFree {
  void operator()(dpi_env* e) const { dpi_env_free(e); }
};
using EnvPtr = std::unique_ptr<dpi_env, EnvFree>;

inline EnvPtr make_env() {
  dpi_env* env = nullptr;
  Error e;
  REQUIRE(dpi_env_create(&env, &e) == DPI_OK);
  return EnvPtr(env);
}

/// Collects what a callback receives, from any thread.
struct Heard {
  struct Message {
    int32_t level;
    std::string component, text;
  };

  std::mutex mutex;
  std::vector<Message> all;

  static void hear(void* user, int32_t level, const char* component, const char* message) {
    auto* h = static_cast<Heard*>(user);
    const std::lock_guard<std::mutex> lock(h->mutex);
    h->all.push_back({level, component, message});
  }
  void listen(dpi_env* env, int32_t min_level) {
    Error e;
    REQUIRE(dpi_env_set_log(env, hear, this, min_level, &e) == DPI_OK);
  }
  /// The text of the first message of a component that holds `part`, "" when there is none.
  std::string find(const std::string& component, const std::string& part, int32_t level) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const Message& m : all) {
      if (m.component == component && m.level == level && m.text.find(part) != std::string::npos)
        return m.text;
    }
    return "";
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mutex);
    return all.size();
  }
};

/// A demo bundle in an environment; the status of the load.
inline dpi_status load_in(dpi_env* env, const std::string& file, const Pairs& pairs, ModelPtr* out) {
  const OptionsPtr o = options(pairs);
  Error e;
  REQUIRE(dpi_options_set_env(o.get(), env, &e) == DPI_OK);
  dpi_model* m = nullptr;
  const dpi_status s = dpi_model_load(demo(file).c_str(), o.get(), &m, &e);
  INFO(e.text());
  out->reset(m);
  return s;
}

/// A folder that goes with its contents.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "dpi_env_XXXXXX").string();

  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path + "/" + name;
    std::ofstream(file) << text;
    std::filesystem::permissions(file,
                                 std::filesystem::perms::owner_all);  // others may not write to a plugin
    return file;
  }
};

inline std::string json_text(size_t (*json)(const dpi_model*, char*, size_t), const dpi_model* m) {
  std::string text(json(m, nullptr, 0) + 64, '\0');
  text.resize(json(m, text.data(), text.size()) - 1);
  return text;
}

}  // namespace dpi::test
