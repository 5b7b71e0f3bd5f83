// What a sound bundle reads as: data/small.h5, written by make_small.py, whose formulas are repeated here.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "bundle/bundle_bytes.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::open_test {
namespace {

namespace fs = std::filesystem;

fs::path scratch(const std::string& name) {
  const fs::path dir = fs::temp_directory_path() / ("dpi_bundle_" + std::to_string(::getpid()));
  fs::create_directories(dir);
  return dir / name;
}

std::unique_ptr<Bundle> open_small() {
  auto bundle = Bundle::open(small_path());
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
  return std::move(bundle).value();
}

Bytes table_bytes(Bundle& bundle, size_t index) {
  Bytes out;
  int64_t next = 0;
  const Status s =
      bundle.read_table(index, [&](int64_t first, int64_t n, std::span<const std::byte> bytes) -> Status {
        CHECK(first == next);
        next += n;
        const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
        out.insert(out.end(), p, p + bytes.size());
        return {};
      });
  REQUIRE_MESSAGE(s.ok(), s.message());
  CHECK(next == bundle.manifest().tables[index].rows);
  return out;
}

TEST_CASE("features") {
  const auto bundle = open_small();
  const Manifest& m = bundle->manifest();
  CHECK(m.name == "small");
  CHECK(m.provenance.find(R"("data":"made up")") != std::string::npos);
  REQUIRE(m.features.size() == 7);
  const FeatureSpec& city = m.features[0];
  CHECK(city.kind == FeatureKind::kCategorical);
  CHECK(city.space == RowSpace::kItem);
  CHECK(city.vocab_size == 5);
  CHECK(city.out_of_range == OutOfRange::kOov);
  CHECK(city.oov_id == 0);
  CHECK(city.missing == Missing::kDefault);
  CHECK(city.default_id == 4);
  CHECK(city.encoder.steps.size() == 2);
  CHECK(city.has_missing_id == false);
  const FeatureSpec& tags = m.features[1];
  CHECK(tags.kind == FeatureKind::kSequence);
  CHECK(tags.space == RowSpace::kShared);
  CHECK(tags.max_len == 3);
  CHECK(tags.keep_last);
  CHECK(tags.pad_side == kernels::PadSide::kPre);
  CHECK(tags.weighted);
  CHECK(m.features[2].default_value == 0.5);
  CHECK(m.features[3].dim == 3);
  CHECK(m.features[4].has_missing_id);
  CHECK(m.features[4].missing_id == -1);
  CHECK(m.features[5].missing == Missing::kError);
}

TEST_CASE("slots and columns, over all features and by part") {
  const BatchColumns l = columns_of(open_small()->manifest().features);
  CHECK(l.n_slots == 5);
  CHECK(l.n_item_slots == 4);
  CHECK(l.n_shared_slots == 1);
  CHECK(l.n_columns == 4);
  CHECK(l.n_item_columns == 1);
  CHECK(l.n_shared_columns == 3);
  CHECK(l.slot_of_feature == std::vector<int32_t>{0, 1, -1, -1, 2, 3, 4});
  CHECK(l.item_slot_of_feature == std::vector<int32_t>{0, -1, -1, -1, 1, 2, 3});
  CHECK(l.shared_slot_of_feature == std::vector<int32_t>{-1, 0, -1, -1, -1, -1, -1});
  CHECK(l.column_of_feature == std::vector<int32_t>{-1, -1, 0, 1, -1, -1, -1});
  CHECK(l.item_column_of_feature == std::vector<int32_t>{-1, -1, 0, -1, -1, -1, -1});
  CHECK(l.shared_column_of_feature == std::vector<int32_t>{-1, -1, -1, 0, -1, -1, -1});
}

TEST_CASE("tables of every type") {
  const auto bundle = open_small();
  REQUIRE(bundle->manifest().tables.size() == 5);
  CHECK(bundle->manifest().tables[0].data == "/tables/t_f32");
  const Bytes f32 = table_bytes(*bundle, 0);
  REQUIRE(f32.size() == 5 * 4 * 4);
  for (int r = 0; r < 5; ++r) {
    for (int c = 0; c < 4; ++c) {
      float v = 0;
      std::memcpy(&v, f32.data() + (r * 4 + c) * 4, 4);
      CHECK(v == 0.25f * static_cast<float>(10 * r + c));
    }
  }
  const Bytes f16 = table_bytes(*bundle, 2);  // 0, 0.5, 5, 5.5, 10, 10.5 in binary16
  CHECK(f16 == Bytes{0, 0, 0, 0x38, 0, 0x45, 0x80, 0x45, 0, 0x49, 0x40, 0x49});
  const Bytes bf16 = table_bytes(*bundle, 3);
  CHECK(bf16 == Bytes{0, 0, 0, 0x3f, 0xa0, 0x40, 0xb0, 0x40, 0x20, 0x41, 0x28, 0x41});
  const Bytes i8 = table_bytes(*bundle, 4);
  std::vector<float> scale;
  REQUIRE(bundle->read_table_scale(4, &scale).ok());
  REQUIRE(scale.size() == 4);
  REQUIRE(i8.size() == 12);
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 3; ++c) {
      const float want = 0.125f * static_cast<float>(10 * r + c);
      const float got = static_cast<float>(static_cast<int8_t>(i8[r * 3 + c])) * scale[r];
      CHECK(std::abs(got - want) <= 0.51f * scale[r]);
    }
  }
}

TEST_CASE("parameters, vocabularies, golden rows") {
  const auto bundle = open_small();
  const Manifest& m = bundle->manifest();
  const auto linear =
      std::find_if(m.ops.begin(), m.ops.end(), [](const OpSpec& o) { return o.op == "Linear"; });
  REQUIRE(linear != m.ops.end());
  const auto bias = bundle->read_param(linear->params.at("bias"));
  REQUIRE(bias.ok());
  CHECK(*bias == std::vector<float>{0.125f});
  CHECK(bundle->find("/params/" + linear->params.at("weight"))->shape == std::vector<int64_t>{1, 17});
  const auto offsets = bundle->read_u64(std::get<step::VocabString>(m.features[0].encoder.steps[1]).offsets);
  REQUIRE(offsets.ok());
  CHECK(*offsets == std::vector<uint64_t>{0, 3, 7, 12, 16});
  const auto keys = bundle->read_i64(std::get<step::VocabInt>(m.features[1].encoder.steps[0]).keys);
  REQUIRE(keys.ok());
  CHECK(*keys == std::vector<int64_t>{30, -20, 10});
  const auto golden = bundle->read_golden();
  REQUIRE(golden.ok());
  CHECK(golden->rows == 3);
  CHECK(golden->shared_rows == 2);
  CHECK(golden->has_offsets);
  CHECK(golden->dense == std::vector<float>{0.5f, -1.0f, 2.0f});
  CHECK(golden->ids.size() == 12);
  CHECK(golden->shared_offsets == std::vector<int64_t>{0, 2, 3});
  CHECK(golden->shared_ids == std::vector<int64_t>{6, 2});
  CHECK(golden->shared_weights == std::vector<float>{0.5f, 2.0f});
  CHECK(golden->value.size() == 3);
  CHECK(golden->logit.size() == 3);
}

TEST_CASE("wrong questions have answers") {
  const auto bundle = open_small();
  CHECK(bundle->read_param("no such").status().code() == Code::kBadModel);
  CHECK(bundle->read_i64("/tables/tags").status().code() == Code::kBadModel);
  std::vector<float> scale;
  CHECK(!bundle->read_table_scale(99, &scale).ok());
  CHECK(!bundle->read_table(99, {}).ok());
  CHECK(bundle->find("/nothing") == nullptr);
}

TEST_CASE("a sink that refuses ends the reading with its own status") {
  const auto bundle = open_small();
  const Status s = bundle->read_table(
      0, [](int64_t, int64_t, std::span<const std::byte>) { return Status(Code::kDevice, "full"); });
  CHECK(s.code() == Code::kDevice);
  CHECK(s.message() == "full");
}

TEST_CASE("memory reads as the file does") {
  const Bytes bytes = read_file(small_path());
  auto bundle = open_bytes(bytes);
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
  const auto file = open_small();
  CHECK((*bundle)->name() == "<memory>");
  CHECK((*bundle)->content_digest() == file->content_digest());
  CHECK((*bundle)->file_bytes() == bytes.size());
  REQUIRE((*bundle)->data_sets().size() == file->data_sets().size());
  for (size_t t = 0; t < 5; ++t) CHECK(table_bytes(**bundle, t) == table_bytes(*file, t));
  uint64_t last = 0;
  uint64_t total = 0;
  CHECK((*bundle)->verify_all([&](uint64_t done, uint64_t all) { last = done, total = all; }).ok());
  CHECK(last == total);
  CHECK(total > 0);
}

TEST_CASE("what is not a readable file") {
  const auto code = [](const fs::path& p) { return Bundle::open(p.string()).status().code(); };
  CHECK(code(scratch("missing.h5")) == Code::kNotFound);
  CHECK(code("") == Code::kNotFound);
  CHECK(code(scratch("")) == Code::kIo);
  const fs::path fifo = scratch("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(code(fifo) == Code::kIo);
  std::ofstream(scratch("empty.h5")).close();
  CHECK(code(scratch("empty.h5")) == Code::kBadModel);
  std::ofstream(scratch("text.h5")) << std::string(4096, 'x');
  const auto text = Bundle::open(scratch("text.h5").string());
  CHECK(text.status().code() == Code::kBadModel);
  CHECK(text.status().message().find("text.h5") != std::string::npos);
  CHECK(open_bytes({}).status().code() == Code::kBadModel);
  fs::remove_all(scratch("").parent_path());
}

TEST_CASE("every committed bundle opens and verifies") {
  int count = 0;
  for (const char* folder : {"weights/demo", "tests/e2e/golden", "tests/kernels"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / folder)) {
      if (entry.path().extension() != ".h5") continue;
      auto bundle = Bundle::open(entry.path().string());
      REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
      CHECK((*bundle)->verify_all({}).ok());
      ++count;
    }
  }
  CHECK(count >= 27);
}

TEST_CASE("many threads may open at once") {
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t i = 0; i < good.size(); ++i) {
    threads.emplace_back([&good, i] {
      for (int k = 0; k < 8; ++k) {
        auto b = Bundle::open(small_path());
        good[i] += b.ok() && (*b)->verify_all({}).ok() ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(good == std::vector<int>(4, 8));
}

TEST_CASE("a required signature") {
  BundleOptions options;
  options.require_signature = std::string(64, 'a');
  const Code unsigned_code = Bundle::open(small_path(), options).status().code();
  CHECK((unsigned_code == Code::kBadModel || unsigned_code == Code::kUnsupported));
  options.require_signature = "no key";
  const Code bad_key = Bundle::open(small_path(), options).status().code();
  CHECK((bad_key == Code::kInvalidArgument || bad_key == Code::kUnsupported));
}

}  // namespace
}  // namespace dpi::test::open_test
