// The plugin loader: each way to be unusable has its own reason, folders are tried in order, the current
// directory and what others may change never.
#include "backend/abi/plugin.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "backend/abi/registry.hpp"
#include "base/own_file.hpp"
#include "support/device.hpp"

namespace dpi::backend::plugin_test {
namespace {

const std::string kFolder = DPI_TEST_PLUGIN_DIR;

Result<OpenedBackend> open(const std::string& device, const std::string& folder = kFolder) {
  BackendRequest request;
  request.device = device;
  request.backend_dir = folder;
  return open_backend(request);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The text of the refusal, which must be kNoDevice and name the file.
std::string refusal(const std::string& device) {
  const auto opened = open(device);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.status().code() == Code::kNoDevice);
  CHECK(contains(opened.status().message(), "backend '" + device + "' cannot be used"));
  CHECK(contains(opened.status().message(), kFolder + "/libdpi_" + device + ".so: "));
  return opened.status().message();
}

// A folder with one plugin, taken away at the end; both writable by their owner alone.
struct OwnPlugin {
  OwnPlugin() {
    folder = std::filesystem::temp_directory_path() / "dpi_plugin_XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);  // 0700
    file = folder + "/libdpi_tiny_valid.so";
    std::filesystem::copy_file(kFolder + "/libdpi_tiny_valid.so", file);
    REQUIRE(chmod(file.c_str(), 0755) == 0);
  }
  ~OwnPlugin() { std::filesystem::remove_all(folder); }
  std::string folder, file;
};

// What the loader says of it; the log's advice goes to *advice.
std::string refusal_of(const OwnPlugin& own, std::string* advice) {
  const PluginSearch search = find_plugin("tiny_valid", own.folder);
  REQUIRE(search.plugin == nullptr);
  REQUIRE_FALSE(search.refusals.empty());
  CHECK(search.refusals[0].defective);
  *advice = search.refusals[0].advice;
  return search.refusals[0].path + ": " + search.refusals[0].reason;
}

struct Environment {
  explicit Environment(const char* value) { setenv("DPI_BACKEND_DIR", value, 1); }
  ~Environment() { unsetenv("DPI_BACKEND_DIR"); }
};

}  // namespace

TEST_CASE("plugin: a valid one opens, twice") {
  for (int i = 0; i < 2; ++i) {
    const auto opened = open("tiny_valid");
    REQUIRE_MESSAGE(opened.ok(), opened.status().message());
    CHECK(std::string(opened->api->name) == "tiny_valid");
    CHECK(opened->device != nullptr);
    CHECK(opened->note.empty());
    opened->api->close(opened->device);
  }
  const PluginSearch a = find_plugin("tiny_valid", kFolder), b = find_plugin("tiny_valid", kFolder);
  CHECK(a.plugin == b.plugin);
  CHECK(a.plugin->path == kFolder + "/libdpi_tiny_valid.so");
  CHECK(a.plugin->score == 10);
}

TEST_CASE("plugin: each refusal has its reason") {
  CHECK(contains(refusal("tiny_missing"), "No such file or directory (option backend_dir)"));
  CHECK(contains(refusal("tiny_no_init"), "does not export dpi_backend_init_v1"));
  CHECK(contains(refusal("tiny_no_score"), "does not export dpi_backend_score_v1"));
  CHECK(contains(refusal("tiny_no_layout"), "does not export dpi_backend_layout_v1"));
  const std::string abi = std::to_string(DPI_BACKEND_ABI);
  const std::string other = std::to_string(DPI_BACKEND_ABI + 1);
  CHECK(contains(refusal("tiny_old_abi"), "has backend ABI " + other + ", expected " + abi));
  CHECK(contains(refusal("tiny_refuses_abi"), "refused backend ABI " + abi + " with code 14"));
  CHECK(contains(refusal("tiny_score_zero"), "cannot be used on this machine: no such accelerator here"));
  CHECK(contains(refusal("tiny_other_name"), "calls itself 'someone_else', expected 'tiny_other_name'"));
  CHECK(contains(refusal("tiny_short_struct"), "has an interface of 16 bytes, expected"));
  CHECK(contains(refusal("tiny_not_a_library"), "cannot be opened: "));
}

TEST_CASE("plugin: one of the same number whose structs are others is told by the digest") {
  const std::string own = DPI_BACKEND_LAYOUT, other = DPI_TEST_OTHER_LAYOUT;
  const std::string number = std::to_string(DPI_BACKEND_ABI) + "-";
  CHECK(own.starts_with(number));
  CHECK(own.size() == number.size() + 16);
  CHECK(other.starts_with(number));
  CHECK(own != other);
  CHECK(contains(refusal("tiny_other_layout"),
                 "was built for the backend interface '" + other + "', not for '" + own + "'"));
}

TEST_CASE("plugin: a failing open keeps its code, its text and the native code") {
  const auto opened = open("tiny_open_fails");
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.status().code() == Code::kNoDevice);
  CHECK(opened.status().native_code() == 35);
  CHECK(opened.status().message() == "backend 'tiny_open_fails': the driver is too old");
}

TEST_CASE("plugin: a name without a file is told what to do first, one with a file why it is refused") {
  const Environment env("/nonexistent/of/environment");
  const auto begins = [](const std::string& name, const std::string& says) {
    const auto opened = open(name, "/nonexistent/of/option");
    REQUIRE_FALSE(opened.ok());
    const std::string place = "/nonexistent/of/option/libdpi_" + name + ".so: No such file";
    CHECK(opened.status().message().starts_with("backend '" + name + "' cannot be used: " + says + place));
  };
  const std::string unknown = "unknown device, expected auto, cpu, cuda or ref";
  begins("gpu", unknown + " (a GPU of NVIDIA is device 'cuda', package libdpi1-cuda13 has it): ");
  begins("refs", unknown + " (did you mean 'ref'?): ");
  begins("accelerator", unknown + ": ");
  const std::string own = "tiny_no_init";
  CHECK(refusal(own).starts_with("backend '" + own + "' cannot be used: " + kFolder + "/libdpi_" + own));
}

TEST_CASE("plugin: every folder that was tried is named, in order") {
  const Environment env("/nonexistent/of/environment");
  const auto opened = open("tiny_missing", "/nonexistent/of/option");
  REQUIRE_FALSE(opened.ok());
  const std::string& text = opened.status().message();
  const size_t option = text.find("/nonexistent/of/option/libdpi_tiny_missing.so");
  const size_t environment = text.find("/nonexistent/of/environment/libdpi_tiny_missing.so");
  const size_t installed = text.find("/dpi/backends-1/libdpi_tiny_missing.so");
  CHECK(option < environment);
  CHECK(environment < installed);
  CHECK(installed != std::string::npos);
}

TEST_CASE("plugin: DPI_BACKEND_DIR is searched") {
  const Environment env(kFolder.c_str());
  const auto opened = open("tiny_valid", "");
  REQUIRE_MESSAGE(opened.ok(), opened.status().message());
  opened->api->close(opened->device);
}

TEST_CASE("plugin: a folder or file that others may write to is not trusted") {
  const OwnPlugin own;
  std::string advice;
  for (const auto& [mode, who] :
       {std::pair(0775, "its group (mode 0775)"), std::pair(0720, "its group (mode 0720)"),
        std::pair(0702, "everybody (mode 0702)"), std::pair(01777, "everybody (mode 0777)")}) {
    CAPTURE(who);
    REQUIRE(chmod(own.folder.c_str(), static_cast<mode_t>(mode)) == 0);
    CHECK(refusal_of(own, &advice) == own.folder + ": may be written to by " + who);
    CHECK(contains(advice, "chmod go-w"));
    REQUIRE(chmod(own.folder.c_str(), 0700) == 0);
    REQUIRE(chmod(own.file.c_str(), static_cast<mode_t>(mode)) == 0);
    CHECK(refusal_of(own, &advice) == own.file + ": may be written to by " + who);
    CHECK(contains(advice, "chmod go-w"));
    REQUIRE(chmod(own.file.c_str(), 0755) == 0);
  }
  CHECK(find_plugin("tiny_valid", own.folder).plugin != nullptr);
  // One that runs already is not given out again from a folder that is no longer trusted.
  REQUIRE(chmod(own.folder.c_str(), 0770) == 0);
  CHECK(find_plugin("tiny_valid", own.folder).plugin == nullptr);
}

TEST_CASE("plugin: a link into a folder that others may write to is not trusted") {
  const OwnPlugin own, elsewhere;
  std::string advice;
  const std::filesystem::path link(own.file), target(elsewhere.file);
  std::filesystem::remove(link);
  std::filesystem::create_symlink(target, link);
  REQUIRE(chmod(elsewhere.folder.c_str(), 0777) == 0);
  const std::string real = std::filesystem::canonical(elsewhere.folder).string();
  CHECK(refusal_of(own, &advice) ==
        own.file + ": is a link into " + real + ", which may be written to by everybody (mode 0777)");
  CHECK(contains(advice, "chmod go-w"));
  REQUIRE(chmod(elsewhere.folder.c_str(), 0755) == 0);
  REQUIRE(chmod(elsewhere.file.c_str(), 0666) == 0);
  CHECK(contains(refusal_of(own, &advice), "everybody (mode 0666)"));
  REQUIRE(chmod(elsewhere.file.c_str(), 0755) == 0);
  CHECK(find_plugin("tiny_valid", own.folder).plugin != nullptr);
  std::filesystem::remove(link);
}

TEST_CASE("plugin: a folder or file of another user is not trusted") {
  if (geteuid() != 0) {  // who else could give one away
    dpi::test::skip_program("not root: nothing can be given to another user");
    return;
  }
  const OwnPlugin own;
  std::string advice;
  REQUIRE(chown(own.folder.c_str(), 65534, 65534) == 0);
  CHECK(refusal_of(own, &advice) ==
        own.folder + ": belongs to user 65534, neither root nor the process's user 0");
  CHECK(contains(advice, "chown"));
  REQUIRE(chown(own.folder.c_str(), 0, 65534) == 0);
  REQUIRE(chown(own.file.c_str(), 65534, 0) == 0);
  CHECK(refusal_of(own, &advice) ==
        own.file + ": belongs to user 65534, neither root nor the process's user 0");
  REQUIRE(chown(own.folder.c_str(), 65534, 0) == 0);
  REQUIRE(seteuid(65534) == 0);  // its own user
  CHECK(find_plugin("tiny_valid", own.folder).plugin != nullptr);
  REQUIRE(seteuid(0) == 0);
}

TEST_CASE("plugin: what is no folder is said to be none") {
  const OwnPlugin own;
  const PluginSearch search = find_plugin("tiny_valid", own.file);
  REQUIRE(search.plugin == nullptr);
  CHECK(search.reasons().starts_with(own.file + ": is not a folder"));
}

TEST_CASE("plugin: this program's own place, and the folder that belongs to it") {
  unsetenv("DPI_BACKEND_DIR");  // ctest sets it
  CHECK(own_file().is_program);
  CHECK(own_file().path == std::filesystem::read_symlink("/proc/self/exe").string());
  const std::vector<PluginFolder> folders = plugin_folders("");
  REQUIRE(folders.size() == 1);
  CHECK(folders[0].origin == "installation");
  CHECK(folders[0].path.ends_with("/dpi/backends-1"));
  CHECK(folders[0].path.find("..") == std::string::npos);
  CHECK_FALSE(folders[0].path.starts_with(own_folder() + "/"));  // beside it: it may be called dpi itself
}

TEST_CASE("plugin: relative folders and the current directory are not used") {
  char before[4096];
  REQUIRE(getcwd(before, sizeof(before)) != nullptr);
  REQUIRE(chdir(kFolder.c_str()) == 0);
  for (const char* folder : {"", ".", "./"}) {
    const auto opened = open("tiny_valid", folder);
    CHECK_FALSE(opened.ok());
  }
  CHECK(contains(open("tiny_valid", ".").status().message(),
                 "option backend_dir '.': is not an absolute path"));
  CHECK(chdir(before) == 0);
}

TEST_CASE("plugin: names that could leave the folder are refused") {
  for (const char* name :
       {"", "../tiny_valid", "a/b", "Tiny", "tiny-valid", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop"}) {
    const auto opened = open(name);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.status().code() == Code::kNoDevice);
    CHECK(contains(opened.status().message(), "is not a backend's name"));
  }
}

}  // namespace dpi::backend::plugin_test
