// Status and Result<T>: how every stage of the SDK reports failure. No exceptions cross a stage; texts are
// built where the facts are known and name the place ("bundle.h5:/tables/age: expected f32 [11, 8], found
// [11, 4]").
//
//   Result<Graph> build(const Manifest&);
//   DPI_ASSIGN_OR_RETURN(Graph g, build(manifest));
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace dpi {

/// Same values as the DPI_E_* codes of <dpi/dpi.h> (asserted in capi).
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kNotFound = 2,
  kIo = 3,
  kBadModel = 4,
  kUnsupported = 5,
  kOutOfMemory = 6,
  kDevice = 7,
  kNoDevice = 8,
  kTimeout = 9,
  kCancelled = 10,
  kQueueFull = 11,  // as many fetches as may be are under way
  kClosed = 12,
  kForked = 13,
  kVersion = 14,
  kInternal = 15,
};

/// A code, a text, and where in the request it happened (-1 = nowhere in particular).
/// Moving and an OK status never allocate; a failing status on the predict path may (it is built once, then
/// returned).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  int64_t row() const { return row_; }
  int64_t feature() const { return feature_; }
  int32_t native_code() const { return native_code_; }

  /// Names the request row and the index of the feature in the schema.
  Status&& at(int64_t row, int64_t feature) && {
    row_ = row;
    feature_ = feature;
    return std::move(*this);
  }
  Status&& native(int32_t code) && {
    native_code_ = code;
    return std::move(*this);
  }
  /// Puts `prefix: ` before the message, for callers that know more about the place.
  Status&& within(const std::string& prefix) && {
    message_ = prefix + ": " + message_;
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  int32_t native_code_ = 0;
  int64_t row_ = -1;
  int64_t feature_ = -1;
  std::string message_;
};

inline const Status kOkStatus;
inline Status ok_status() { return {}; }
inline Status bad_model(std::string m) { return {Code::kBadModel, std::move(m)}; }
inline Status invalid_argument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Status unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
inline Status internal_error(std::string m) { return {Code::kInternal, std::move(m)}; }

/// Either a value or a failing Status.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<1>, std::move(value)) {}
  Result(Status status) : v_(std::in_place_index<0>, std::move(status)) {}

  bool ok() const { return v_.index() == 1; }
  const Status& status() const& { return ok() ? kOkStatus : std::get<0>(v_); }
  Status status() && { return ok() ? Status() : std::move(std::get<0>(v_)); }
  T& value() & { return std::get<1>(v_); }
  const T& value() const& { return std::get<1>(v_); }
  T&& value() && { return std::move(std::get<1>(v_)); }
  T* operator->() { return &std::get<1>(v_); }
  const T* operator->() const { return &std::get<1>(v_); }
  T& operator*() & { return std::get<1>(v_); }
  const T& operator*() const& { return std::get<1>(v_); }

 private:
  std::variant<Status, T> v_;
};

}  // namespace dpi

#define DPI_CONCAT_(a, b) a##b
#define DPI_CONCAT(a, b) DPI_CONCAT_(a, b)

/// Returns the failing Status of `expr`, if it fails.
#define DPI_RETURN_IF_ERROR(expr)                                \
  do {                                                           \
    if (::dpi::Status dpi_status_ = (expr); !dpi_status_.ok()) { \
      return dpi_status_;                                        \
    }                                                            \
  } while (false)

/// Declares or assigns `lhs` from a Result, or returns its failing Status.
#define DPI_ASSIGN_OR_RETURN(lhs, expr) DPI_ASSIGN_OR_RETURN_(DPI_CONCAT(dpi_result_, __LINE__), lhs, expr)
#define DPI_ASSIGN_OR_RETURN_(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()
