// Runs one act again and again, each time with another call failing: the n-th allocation, read, thread or
// device call. An act is a sequence of calls of the C API; each of them either does what it does without a
// fault or fails with the status that the fault is worth, and then does it when it is called once more.
//
// Injections run in a child process. Where one ends the process, its parent tells which, and goes on with the
// next in another child.
#pragma once

#include <dpi/dpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "injection/interpose.hpp"

namespace dpi::test {

/// What is made to fail: a call of the C library, or one of the emulated device.
struct Injection {
  Fault fault;
  const char* device_kind = nullptr;  // of dpi_emu_fail; null = fault
  std::string text() const;
};

/// What the plugin cuda_emu offers to tests; null members without it.
struct Device {
  bool (*fail)(const char* spec) = nullptr;
  int64_t (*calls)(const char* kind) = nullptr;
};

/// The kinds of dpi_emu_fail.
constexpr int kDeviceKinds = 9;
extern const char* const kDeviceKindNames[kDeviceKinds];

/// One run of an act with at most one fault.
class Run {
 public:
  Run() = default;  // outside of all faults
  Run(Injection injection, const Device& device)
      : watches_(true), injection_(std::move(injection)), device_(device) {}

  /// Calls `f(dpi_error*)`, a function of the C API that gives a status, with the fault under way. What it
  /// must give without one is `right`; a call that failed is made again without. `path`: of the file that a
  /// failed read must name.
  template <class F>
  void call(const char* what, F&& f, dpi_status right = DPI_OK, const char* path = nullptr) {
    dpi_error e = DPI_ERROR_INIT;
    dpi_status s = DPI_OK;
    always([&] { s = f(&e); });
    if (first_try(what, s, right, e, path)) return;
    e = DPI_ERROR_INIT;
    second_try(what, f(&e), right, e);
  }
  /// The same for one that gives a size or a count of bytes: 0 = it failed.
  template <class F>
  void size(const char* what, F&& f) {
    call(what, [&](dpi_error* e) {
      if (f() != 0) return static_cast<dpi_status>(DPI_OK);
      e->message[0] = '?';
      return e->code = DPI_E_OUT_OF_MEMORY;
    });
  }
  /// A function that cannot fail.
  template <class F>
  void always(F&& f) {
    if (!watches_) return f();
    begin();
    {
      const Watched watched;
      f();
    }
    end();
  }
  /// `ok` must hold whatever fails.
  void check(bool ok, const char* what) {
    if (!ok) wrong(what);
  }
  /// Of the first call that failed; DPI_OK when all went on.
  dpi_status status() const { return status_; }
  const std::string& faults() const { return faults_; }
  /// Calls of a device kind so far.
  int64_t device_calls(int kind) const { return device_calls_[kind]; }

 private:
  void begin();
  void end();
  bool first_try(const char* what, dpi_status s, dpi_status right, const dpi_error& e, const char* path);
  void second_try(const char* what, dpi_status s, dpi_status right, const dpi_error& e);
  bool is_right_failure(dpi_status s) const;
  void wrong(const std::string& text) { faults_ += "\n    " + text; }

  const bool watches_ = false;
  const Injection injection_;
  const Device device_;
  int64_t device_calls_[kDeviceKinds] = {};
  dpi_status status_ = DPI_OK;
  std::string faults_;
};

/// A sequence of calls, which gives back all that it takes.
using Act = std::function<void(Run&)>;

/// Something that every injection in `act` must leave as it is.
struct Invariant {
  const char* what;
  std::function<std::string()> value;
};

/// How many injections of a kind an act gets at most, spread evenly.
struct Extent {
  int64_t most = 0;
  int64_t most_device = 0;  // of calls of the device
};

/// Counts of all sweeps, printed at the end.
struct Totals {
  int64_t injections = 0;
  int64_t by_status[16] = {};
  int64_t wrong = 0, deaths = 0;
};

/// An act with what must stay as it is around it, made in the process that plays it.
struct Stage {
  virtual ~Stage() = default;
  Act act;
  std::vector<Invariant> invariants;
  Device device;
};

using MakeStage = std::function<std::unique_ptr<Stage>()>;

/// Plays the stage's act without a fault to count its calls, then once per injection. True = nothing was
/// wrong.
bool sweep(const std::string& name, const MakeStage& make, const Extent& extent, Totals* totals);

}  // namespace dpi::test
