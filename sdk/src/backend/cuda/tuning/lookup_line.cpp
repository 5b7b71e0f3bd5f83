#include "backend/cuda/tuning/lookup_line.hpp"

#include <charconv>

namespace dpi::backend {

using kernels::DType;
using kernels::cuda::LookupKind;

namespace {

constexpr const char* kKinds[] = {"auto", "copy", "rows"};
constexpr const char* kHints[] = {"stream", "plain", "keep"};
constexpr const char* kYesNo[] = {"no", "yes"};
constexpr const char* kOnOff[] = {"off", "on"};
constexpr const char* kStores[] = {"plain", "stream"};

template <class T>
bool parse_number(const std::string& word, T most, T* out) {
  const char* const end = word.data() + word.size();
  const auto got = std::from_chars(word.data(), end, *out);
  return got.ec == std::errc() && got.ptr == end && *out >= 0 && *out <= most;
}

/// `word` among `names`, or -1.
template <size_t N>
int place_of(const std::string& word, const char* const (&names)[N]) {
  for (size_t i = 0; i < N; ++i) {
    if (word == names[i]) return static_cast<int>(i);
  }
  return -1;
}

template <class T>
bool parse_or_any(const std::string& word, T most, T* out) {
  if (word != "*") return parse_number<T>(word, most, out);
  *out = -1;
  return true;
}

bool parse_choice(const std::string& word, int32_t* out) {
  *out = place_of(word, kYesNo);
  return *out >= 0 || word == "*";
}

bool parse_type(const std::string& word, DType* type, int32_t* any) {
  *any = word == "*" ? 1 : 0;
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
    if (word != name_of(t)) continue;
    *type = t;
    return true;
  }
  return *any == 1;
}

bool one_of(int32_t v, std::initializer_list<int32_t> allowed) {
  for (const int32_t a : allowed) {
    if (v == a) return true;
  }
  return false;
}

std::string or_any(int64_t v) { return v < 0 ? "*" : std::to_string(v); }
std::string choice_text(int32_t v) { return v < 0 ? "*" : kYesNo[v]; }
std::string type_text(DType t, int32_t any) { return any != 0 ? "*" : name_of(t); }

const char* parse_variant(const std::vector<std::string>& w, kernels::cuda::LookupVariant* v) {
  const int kind = place_of(w[7], kKinds);
  if (kind < 0) return "the kind is not auto, copy or rows";
  v->kind = static_cast<LookupKind>(kind);
  if (!parse_number<int32_t>(w[8], 8, &v->vector) || !one_of(v->vector, {0, 4, 8}))
    return "vector is not 0, 4 or 8";
  if (!parse_number<int32_t>(w[9], 8, &v->ilp) || !one_of(v->ilp, {0, 4, 8})) return "ilp is not 0, 4 or 8";
  if (!parse_number<int32_t>(w[10], 256, &v->block) || !one_of(v->block, {0, 32, 64, 128, 256}))
    return "block is not 0, 32, 64, 128 or 256";
  v->hint = place_of(w[11], kHints);
  if (v->hint < 0) return "the hint is not stream, plain or keep";
  v->sort_bags = place_of(w[12], kOnOff);
  if (v->sort_bags < 0) return "sort is not on or off";
  v->stores = place_of(w[13], kStores);
  return v->stores < 0 ? "stores is not plain or stream" : nullptr;
}

}  // namespace

const char* parse_lookup_tuning(const std::vector<std::string>& w, LookupLine* out) {
  if (w.size() != 15) return "expected 15 words";
  auto& e = out->entry;
  if (!parse_or_any<int64_t>(w[1], int64_t{1} << 40, &e.rows)) return "rows is not a number or *";
  if (!parse_or_any<int32_t>(w[2], 1 << 20, &e.dim)) return "dim is not a number or *";
  if (!parse_choice(w[3], &e.sums)) return "sums is not yes, no or *";
  if (!parse_choice(w[4], &e.bags)) return "bags is not yes, no or *";
  if (!parse_type(w[5], &e.table, &e.any_table)) return "the type of the table is not known";
  if (!parse_type(w[6], &e.out, &e.any_out)) return "the type of the output is not known";
  if (const char* what = parse_variant(w, &e.variant); what != nullptr) return what;
  return parse_number<double>(w[14], 1e12, &out->microseconds) ? nullptr : "the time is not a number";
}

std::string lookup_tuning_text(const LookupLine& line) {
  const auto& e = line.entry;
  const auto& v = e.variant;
  char time[32];
  const auto end = std::to_chars(time, time + sizeof(time), line.microseconds, std::chars_format::fixed, 3);
  return "lookup " + or_any(e.rows) + " " + or_any(e.dim) + " " + choice_text(e.sums) + " " +
         choice_text(e.bags) + " " + type_text(e.table, e.any_table) + " " + type_text(e.out, e.any_out) +
         " " + kKinds[static_cast<int>(v.kind)] + " " + std::to_string(v.vector) + " " +
         std::to_string(v.ilp) + " " + std::to_string(v.block) + " " + kHints[v.hint] + " " +
         kOnOff[v.sort_bags] + " " + kStores[v.stores] + " " + std::string(time, end.ptr);
}

}  // namespace dpi::backend
