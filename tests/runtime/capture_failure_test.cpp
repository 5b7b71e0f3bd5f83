// Graph captures that fail: the call is answered op by op, the shape tries again, and only a shape that fails
// every time goes on without a graph. The oracle is the reference backend on the same rows.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "runtime/emu_control.hpp"
#include "runtime/model/model.hpp"
#include "support/random_batch.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::capture_failure_test {
namespace {

std::unique_ptr<Model> load(const std::string& device) {
  auto bundle = Bundle::open(source_dir() + "/weights/demo/bank_dcnv2.h5");
  REQUIRE(bundle.ok());
  ModelOptions options;
  options.device = device;
  options.max_rows = 16;
  options.max_contexts = 1;
  auto model = Model::create(*bundle.value(), options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  return std::move(model).value();
}

/// A model on the emulated device, and how often its calls captured and replayed since the last failing().
struct Site {
  EmuControl emu;
  std::unique_ptr<Model> reference = load("ref"), model = load("cuda_emu");

  RandomBatch request(int64_t rows) const {
    return {model->engine().schema(), rows, 0, static_cast<unsigned>(rows)};
  }
  std::vector<float> scores(Model& m, const RandomBatch& request) const {
    std::vector<float> out(static_cast<size_t>(request.batch.item.rows * m.engine().heads()), std::nanf(""));
    const Status s = m.predict(request.batch, out.data(), {});
    CHECK_MESSAGE(s.ok(), s.message());
    return out;
  }
  /// Scores a request, which has to be right.
  void call(int64_t rows) {
    const RandomBatch r = request(rows);
    const std::vector<float> got = scores(*model, r), want = scores(*reference, r);
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::fabs(got[i] - want[i]) <= 1e-5f);
  }
  void failing(const char* spec) { REQUIRE(emu.fail(spec)); }
  int64_t captures() const { return emu.calls("capture"); }  // beginnings and ends
  int64_t replays() const { return emu.calls("graph"); }
};

TEST_CASE("a capture that fails is answered op by op, told, and tried again by the next call") {
  for (const char* spec : {"capture:1:901", "capture:2:901"}) {  // its beginning, its end
    CAPTURE(spec);
    Site site;
    site.call(3);
    site.failing(spec);
    site.call(3);
    CHECK(site.replays() == 0);
    CHECK(site.model->engine().uses_graphs());
    CHECK(site.model->engine().graphs_note() != "");
    CHECK(site.model->engine().take_graphs_note() != "");
    CHECK(site.model->engine().take_graphs_note() == "");
    site.failing("");
    site.call(3);
    CHECK(site.captures() == 2);
    CHECK(site.replays() == 1);
    site.call(3);
    CHECK(site.captures() == 2);
    CHECK(site.replays() == 2);
  }
}

TEST_CASE("a shape that fails every time goes on without a graph, and the others keep theirs") {
  Site site;
  site.call(3);
  site.call(3);
  site.call(16);
  site.failing("capture:1:901,capture:2:901,capture:3:901");
  for (int i = 0; i < 5; ++i) site.call(16);
  CHECK(site.captures() == 3);
  CHECK(site.replays() == 0);
  site.call(3);
  CHECK(site.replays() == 1);
  CHECK(site.model->engine().uses_graphs());
}

TEST_CASE("where no capture ever succeeds all shapes go on op by op") {
  Site site;
  site.call(3);
  site.failing("capture:1:901,capture:2:901,capture:3:901");
  for (int i = 0; i < 3; ++i) site.call(3);
  CHECK(!site.model->engine().uses_graphs());
  site.call(16);
  site.call(16);
  CHECK(site.captures() == 3);
  CHECK(site.replays() == 0);
}

}  // namespace
}  // namespace dpi::test::capture_failure_test
