// Sequences of C API calls: an input's bytes say which call comes next, on which handles, with what
// arguments.
#include "fuzz/capi_state.hpp"
#include "fuzz/target.hpp"

namespace dpi::fuzz {
namespace {

constexpr size_t kMostMemory = size_t{8} << 20;
constexpr int kMostCalls = 200;
constexpr int kMostLoads = 4;

void run(InputBytes bytes) {
  MemoryBudget budget{kMostMemory};
  {
    Input in(bytes);
    State s;
    s.in = &in;
    s.budget = &budget;
    int loads = 0;
    if (!in.one_in(16)) call_load(s);  // most calls need a model
    for (int calls = 0; calls < kMostCalls && !in.empty(); ++calls) {
      using Call = void (*)(State&);
      constexpr Call kCalls[] = {call_environment, call_options, call_options, call_load,
                                 call_model,       call_predict, call_predict, call_context,
                                 call_context,     call_rows,    call_rows,    call_rows,
                                 call_rows,        call_rows,    call_model,   call_library};
      const Call call = in.of(kCalls);
      if (call != call_load || ++loads <= kMostLoads) call(s);
    }
  }
  expect(budget.taken == 0, "every block came back");
}

}  // namespace

const Target kCapiTarget{"capi", run, nullptr};

}  // namespace dpi::fuzz
