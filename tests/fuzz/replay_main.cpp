// Runs every file of folders through a target: the committed corpora, in ctest, with whatever compiler and
// sanitizer the build has. Any input that is not handled as promised ends the program.
//
//   fuzz_replay TARGET [FILE|FOLDER]...
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/target.hpp"
#include "support/outcome.hpp"

namespace dpi::fuzz {
namespace {

constexpr const Target* kTargets[] = {&kBundleTarget,  &kCapiTarget,   &kRowsTarget,  &kCsvTarget,
                                      &kOptionsTarget, &kTuningTarget, &kDeltaTarget, &kRecordTarget};

std::vector<std::string> files_of(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 2; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      out.push_back(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) out.push_back(entry.path().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

int replay(const Target& target, const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "%s cannot be read\n", path.c_str());
      return 1;
    }
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
    std::fprintf(stderr, "%s\n", path.c_str());  // whose end the log shows where the program ended early
    begin_input();
    target.run({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
  const Tally& t = tally();
  std::fprintf(stderr, "%s: %zu inputs, %zu loaded, %zu predicted\n", target.name,
               static_cast<size_t>(t.inputs), static_cast<size_t>(t.loaded),
               static_cast<size_t>(t.predicted));
  return files.empty() ? 1 : 0;
}

}  // namespace
}  // namespace dpi::fuzz

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  for (const dpi::fuzz::Target* target : dpi::fuzz::kTargets) {
    if (name == target->name) return dpi::fuzz::replay(*target, dpi::fuzz::files_of(argc, argv));
  }
  std::fprintf(stderr, "no target '%s'\n", name.c_str());
  return 2;
}
