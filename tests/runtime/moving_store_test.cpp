// Tables that move while a model is in use: a call reads them where they are, whether it runs op by op, is
// captured or replays a graph that was captured before they moved.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "runtime/model/model.hpp"
#include "store/resident/resident_store.hpp"
#include "support/device.hpp"
#include "support/forwarding_store.hpp"
#include "support/host_memory.hpp"
#include "support/random_batch.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::moving_store_test {
namespace {

/// Copies of tables, as all readers show them. move() makes new ones; the old ones become NaN and stay, so
/// that whoever still reads them gets a wrong score. Every other copy lies on no multiple of 16 bytes, which
/// other kernels read.
class MovingViews {
 public:
  kernels::TableView moved(int32_t table, kernels::TableView v) {
    const size_t bytes = static_cast<size_t>((v.rows - 1) * v.row_bytes + v.dim * dtype_bytes(v.dtype));
    std::vector<char>& copy = copies_[{addresses, table}];
    if (copy.empty()) {
      copy.resize(bytes + 128);
      std::memcpy(place(copy), v.base, bytes);
    }
    v.base = place(copy);
    return v;
  }
  void move() {
    for (auto& [key, copy] : copies_) std::memset(copy.data(), 0xFF, copy.size());
    ++addresses;
  }
  uint64_t addresses = 2;

 private:
  char* place(std::vector<char>& copy) const {
    return copy.data() + (64 - reinterpret_cast<uintptr_t>(copy.data()) % 64) % 64 + addresses % 2 * 4;
  }
  std::map<std::pair<uint64_t, int32_t>, std::vector<char>> copies_;
};

class MovingReader final : public ForwardingReader {
 public:
  MovingReader(std::unique_ptr<StoreReader> inner, MovingViews& views)
      : ForwardingReader(std::move(inner)), views_(views) {}
  kernels::TableView view(int32_t t) const override { return views_.moved(t, ForwardingReader::view(t)); }
  uint64_t addresses() const override { return views_.addresses; }

 private:
  MovingViews& views_;
};

class MovingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override {
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<StoreReader> inner, ForwardingStore::open_reader(limits));
    return std::unique_ptr<StoreReader>(std::make_unique<MovingReader>(std::move(inner), views_));
  }
  void move() { views_.move(); }

 private:
  MovingViews views_;
};

std::vector<float> scores(Model& model, const RandomBatch& request) {
  std::vector<float> out(static_cast<size_t>(request.batch.item.rows * model.engine().heads()),
                         std::nanf(""));
  const Status s = model.predict(request.batch, out.data(), {});
  CHECK_MESSAGE(s.ok(), s.message());
  return out;
}

bool near(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(got[i] - want[i]) <= 1e-5f)) return false;
  }
  return true;
}

TEST_CASE("tables that move are read where they are, by captured graphs too") {
  for (const char* file : {"weights/demo/adult_widedeep.h5", "weights/demo/bank_dcnv2.h5"}) {
    CAPTURE(file);
    auto bundle = Bundle::open(source_dir() + "/" + file);
    REQUIRE(bundle.ok());
    const HostMemory memory;
    ModelOptions options;
    options.device = "ref";
    options.max_rows = 16;
    options.max_contexts = 1;
    auto reference = Model::create(*bundle.value(), options);
    REQUIRE_MESSAGE(reference.ok(), reference.status().message());
    options.device = device();
    auto store = std::make_unique<MovingStore>(make_resident_store(memory.b.api, memory.b.device, 0));
    MovingStore* const tables = store.get();
    auto model = Model::create(*bundle.value(), options, std::move(store));
    REQUIRE_MESSAGE(model.ok(), model.status().message());
    const RandomBatch small(model.value()->engine().schema(), 3, 0, 5);
    const RandomBatch large(model.value()->engine().schema(), 16, 0, 6);
    const std::vector<float> want_small = scores(*reference.value(), small);
    const std::vector<float> want_large = scores(*reference.value(), large);
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      for (int pass = 0; pass < 3; ++pass) {  // op by op (in the first round), captured, replayed
        CHECK(near(scores(*model.value(), small), want_small));
        CHECK(near(scores(*model.value(), large), want_large));
      }
      tables->move();
    }
    if (device() == "cuda_emu") CHECK(model.value()->engine().uses_graphs());
    CHECK(model.value()->engine().graphs_note() == "");  // no capture met a kernel that had not run
  }
}

}  // namespace
}  // namespace dpi::test::moving_store_test
