#include "soak/actions.hpp"

#include <cstring>

namespace dpi::soak {

using fuzz::Error;
using fuzz::expect;

namespace {

size_t below(Random* random, size_t n) { return (*random)() % n; }

const Case& any_case(const Subject& s, Random* random) {
  // The emulated device runs a kernel a thousand times slower than a GPU: small batches there.
  return s.cases()[below(random, s.device() == "cuda_emu" ? 2 : s.cases().size())];
}

void predict(Subject& s, Random* random, Done* done) {
  const Owned<dpi_model> model = s.take();
  for (int k = 0; k < 4; ++k, ++done->predictions) {
    const Case& c = any_case(s, random);
    expect(same_bits(score(model.get(), c.rows->batch), c.scores),
           "scores are those of the first load, to the bit");
  }
}

void predict_rows(Subject& s, Random*, Done* done) {
  const Owned<dpi_model> model = s.take();
  expect(same_bits(score_raw(model.get(), s.raw()), s.raw().scores), "raw rows score as they did first");
  ++done->predictions;
}

void predict_in_context(Subject& s, Random* random, Done* done) {
  Owned<dpi_model> model = s.take();
  dpi_context* made = nullptr;
  Error error;
  const dpi_status created = dpi_context_create(model.get(), 8, 0, &made, &error);
  fuzz::expect_documented(created, error);
  expect(created == DPI_OK, "a context can be made");
  const Owned<dpi_context> context(made);
  const auto heads = static_cast<size_t>(fuzz::info_of(model.get()).num_heads);
  if (below(random, 2) == 0) model.reset();  // the context keeps it
  const Case& c = any_case(s, random);
  std::vector<float> out(static_cast<size_t>(c.rows->batch.rows) * heads, -1.0f);
  const dpi_status p =
      dpi_context_predict_batch(made, &c.rows->batch, out.data(), out.size(), nullptr, &error);
  expect(p == DPI_OK && same_bits(out, c.scores), "a context scores as the model does");
  ++done->predictions;
}

void load_and_free(Subject& s, Random* random, Done* done) {
  const Owned<dpi_model> model = s.load(static_cast<uint32_t>((*random)()));
  const Case& c = any_case(s, random);
  expect(same_bits(score(model.get(), c.rows->batch), c.scores), "every load scores as the first");
  ++done->loads;
  ++done->predictions;
}

void swap(Subject& s, Random* random, Done* done) {
  s.swap(s.load(static_cast<uint32_t>((*random)())));
  ++done->loads;
  ++done->swaps;
}

void describe(Subject& s, Random*, Done*) {
  const Owned<dpi_model> model = s.take();
  // Counters move under other threads: their text is asked for once.
  std::vector<char> text(1 << 16);
  for (auto call : {dpi_model_schema_json, dpi_model_info_json, dpi_model_counters_json}) {
    const size_t n = call(model.get(), text.data(), text.size());
    expect(n > 2 && std::memchr(text.data(), '\0', text.size()) != nullptr, "a model tells about itself");
  }
}

/// A load that has to be refused with `wanted`.
void refuse(const Subject& s, const std::string& bytes, const char* memory_limit,
            const volatile int32_t* cancel, dpi_status wanted) {
  const Owned<dpi_options> options(dpi_options_create());
  fuzz::set(options.get(), "device", s.device());
  fuzz::set(options.get(), "memory_limit", memory_limit);
  expect(dpi_options_set_progress(options.get(), nullptr, nullptr, cancel, nullptr) == DPI_OK,
         "a flag can be set");
  Error error;
  dpi_model* model = nullptr;
  const dpi_status got = dpi_model_load_memory(bytes.data(), bytes.size(), options.get(), &model, &error);
  fuzz::expect_documented(got, error);
  expect(got == wanted && model == nullptr, "what is wrong is refused for its reason");
}

void refuse_one(Subject& s, Random* random, Done* done) {
  static const volatile int32_t kCancelled = 1;
  std::string bytes = s.bytes();
  switch (below(random, 5)) {
    case 0:  // damaged in the user block, behind the version
      bytes[16 + below(random, 1000)] ^= static_cast<char>(1 << below(random, 8));
      refuse(s, bytes, "0", nullptr, DPI_E_BAD_MODEL);
      break;
    case 1:
      bytes.resize(1 + below(random, bytes.size() - 1));
      refuse(s, bytes, "0", nullptr, DPI_E_BAD_MODEL);
      break;
    case 2:  // the major version
      bytes[8] = static_cast<char>(3 + below(random, 100));
      refuse(s, bytes, "0", nullptr, DPI_E_UNSUPPORTED);
      break;
    case 3:
      refuse(s, bytes, "1000", nullptr, DPI_E_OUT_OF_MEMORY);
      break;
    default:
      refuse(s, bytes, "0", &kCancelled, DPI_E_CANCELLED);
  }
  ++done->refusals;
}

}  // namespace

void Done::add(const Done& other) {
  actions += other.actions;
  predictions += other.predictions;
  loads += other.loads;
  swaps += other.swaps;
  refusals += other.refusals;
}

void act(std::deque<Subject>& subjects, Random* random, Done* done) {
  using Action = void (*)(Subject&, Random*, Done*);
  constexpr Action kActions[] = {
      predict,       predict, predict,    predict,    predict_rows, predict_in_context,
      load_and_free, swap,    refuse_one, refuse_one, describe};
  Subject& s = subjects[below(random, subjects.size())];
  kActions[below(random, std::size(kActions))](s, random, done);
  ++done->actions;
}

}  // namespace dpi::soak
