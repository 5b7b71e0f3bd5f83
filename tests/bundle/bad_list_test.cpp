// Each malformed bundle that make_bad_bundles.py, make_raw_bundles.py and make_hostile_bundles.py write gets
// the status, and names the place, that the script states beside it: when it is opened, when all its data is
// read, or when its encoders and graph are built.
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "bundle/bundle_bytes.hpp"
#include "encode/encoder.hpp"
#include "graph/graph.hpp"
#include "support/python.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::bad_list_test {
namespace {

namespace fs = std::filesystem;

struct BundleParams final : ParamSource {
  explicit BundleParams(Bundle& b) : bundle(b) {}
  Result<std::vector<int64_t>> shape(const std::string& name) override {
    const DataSetInfo* info = bundle.find("/params/" + name);
    if (info == nullptr) return bad_model(bundle.name() + ":/params/" + name + ": is missing");
    return info->shape;
  }
  Result<std::vector<float>> read(const std::string& name) override { return bundle.read_param(name); }
  Bundle& bundle;
};

/// What loading the bundle comes to.
Status load(const std::string& path) {
  BundleOptions options;  // keys are looked at, too: their digests say nothing of their order
  options.check_hashes = have_content_hash();
  DPI_ASSIGN_OR_RETURN(const std::unique_ptr<Bundle> bundle, Bundle::open(path, options));
  DPI_RETURN_IF_ERROR(bundle->verify_all({}));
  for (size_t s = 0; s < bundle->manifest().key_sets.size(); ++s) {
    if (bundle->manifest().key_sets[s].external()) continue;
    DPI_RETURN_IF_ERROR(bundle->read_keys(s, [](int64_t, std::span<const int64_t>) { return Status(); }));
  }
  DPI_RETURN_IF_ERROR(bundle->read_golden().status());
  DPI_RETURN_IF_ERROR(bundle->read_golden_raw().status());
  VocabularySet vocabularies(*bundle);
  for (const FeatureSpec& f : bundle->manifest().features) {
    if (!f.encoder.empty()) DPI_RETURN_IF_ERROR(FeatureEncoder::build(f, vocabularies).status());
  }
  BundleParams params(*bundle);
  return build_graph(bundle->manifest(), params).status();
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Is `code` one of the statuses named in `names` ("DPI_E_BAD_MODEL|DPI_E_UNSUPPORTED")?
bool is_one_of(Code code, const std::string& names) {
  const std::pair<const char*, Code> kNames[] = {{"DPI_OK", Code::kOk},
                                                 {"DPI_E_BAD_MODEL", Code::kBadModel},
                                                 {"DPI_E_UNSUPPORTED", Code::kUnsupported},
                                                 {"DPI_E_INVALID_ARGUMENT", Code::kInvalidArgument}};
  for (const auto& [text, value] : kNames) {
    if (value == code && ("|" + names + "|").find("|" + std::string(text) + "|") != std::string::npos)
      return true;
  }
  return false;
}

void check_cases(const std::string& script) {
  const fs::path dir = fs::temp_directory_path() / ("dpi_bad_bundles_" + std::to_string(::getpid()));
  REQUIRE(run_script(source_dir() + "/tests/bundle/" + script, dir.string()));
  std::ifstream in(dir / "cases.json");
  const auto list = nlohmann::json::parse(in, nullptr, false);
  REQUIRE(list.is_array());
  CHECK(list.size() >= 60);
  for (const auto& entry : list) {
    const auto file = entry["file"].get<std::string>();
    const auto text = entry["text"].get<std::string>();
    const Status s = load((dir / file).string());
    CHECK_MESSAGE(is_one_of(s.code(), entry["status"].get<std::string>()), file, ": ", s.message());
    CHECK_MESSAGE(lower(s.message()).find(lower(text)) != std::string::npos, file, ": ", s.message(),
                  " lacks ", text);
  }
  fs::remove_all(dir);
}

TEST_CASE("malformed bundles of the package's own writer") {
  if (has_python()) check_cases("make_bad_bundles.py");
}

TEST_CASE("malformed bundles written from nothing") {
  if (has_python()) check_cases("make_raw_bundles.py");
}

TEST_CASE("bundles whose HDF5 structures lie") {
  if (has_python()) check_cases("make_hostile_bundles.py");
}

}  // namespace
}  // namespace dpi::test::bad_list_test
