#include "backend/cuda/tuning/tuning.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "kernels/cuda/common/tuned_rows.hpp"

namespace dpi::backend {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;
constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr size_t kAlgoDigits = sizeof(lt::Algo) * 2;
constexpr const char* kMagic = "dpi-tuning ";

/// By hand: a stream that has no memory for a word drops it without a word.
std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  std::vector<std::string> words;
  for (size_t at = line.find_first_not_of(kBlanks); at < line.size();) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

bool parse_count(const std::string& word, int64_t most, int64_t* out) {
  if (word.empty() || word.size() > 15 || word.find_first_not_of("0123456789") != std::string::npos)
    return false;
  *out = std::strtoll(word.c_str(), nullptr, 10);
  return *out <= most;
}

bool parse_precision(const std::string& word, GemmPrecision* out) {
  for (int i = 0; i < 4; ++i) {
    *out = static_cast<GemmPrecision>(i);
    if (word == precision_name(*out)) return true;
  }
  return false;
}

bool parse_tile(const std::string& word, kernels::cuda::GemmTile* out) {
  for (int i = 0; i < 3; ++i) {
    *out = static_cast<kernels::cuda::GemmTile>(i);
    if (word == std::to_string(tile_side(*out))) return true;
  }
  return false;
}

bool parse_algo(const std::string& word, lt::Algo* out) {
  if (word.size() != kAlgoDigits || word.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  for (size_t i = 0; i < 8; ++i) out->data[i] = std::strtoull(word.substr(i * 16, 16).c_str(), nullptr, 16);
  return true;
}

std::string algo_text(const lt::Algo& a) {
  std::string text;
  char digits[17];
  for (const uint64_t word : a.data) {
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(word));
    text += digits;
  }
  return text;
}

// What is wrong with a line of nine words, or null.
const char* parse_entry(const std::vector<std::string>& w, TuningEntry* e) {
  if (w.size() != 9) return "expected 9 words";
  if (!parse_precision(w[0], &e->precision)) return "the precision is not fp32, tf32, fp16 or bf16";
  if (w[1] != "plain" && w[1] != "fused") return "the end is not plain or fused";
  e->shape.fused = w[1] == "fused";
  if (!parse_count(w[2], kMaxExtent, &e->shape.out) || !parse_count(w[3], kMaxExtent, &e->shape.in) ||
      !parse_count(w[4], kMaxExtent, &e->shape.rows))
    return "out, in or rows is not a number";
  e->choice.impl = gemm_impl(w[5]);
  if (e->choice.impl == GemmImpl::kCount) return "the implementation is not known";
  const bool has_tile = !is_lt(e->choice.impl) && e->choice.impl != GemmImpl::kOwnSimt;
  e->choice.staged = is_lt(e->choice.impl) && w[6] == "staged";
  const bool no_tile = w[6] == "-" || e->choice.staged;
  if (has_tile ? !parse_tile(w[6], &e->choice.tile) : !no_tile) return "the tile does not fit";
  if (is_lt(e->choice.impl) ? !parse_algo(w[7], &e->choice.algo) : w[7] != "-")
    return "the algorithm does not fit";
  const char* const end = w[8].data() + w[8].size();
  const auto time = std::from_chars(w[8].data(), end, e->microseconds);
  if (time.ec != std::errc() || time.ptr != end || !(e->microseconds >= 0 && e->microseconds < 1e12))
    return "the time is not a number";
  return nullptr;
}

// A line before the entries: its value, or false when it does not start with `key`.
bool header_value(const std::string& line, const std::string& key, std::string* value) {
  if (line.rfind(key + " ", 0) != 0) return false;
  *value = line.substr(key.size() + 1);
  return true;
}

std::string mismatch(const TuningHeader& table, const TuningHeader& here) {
  if (table.device == "*") return {};
  if (table.multiprocessors == 0 && table.device != here.device)
    return "for '" + table.device + "', this is '" + here.device + "'";
  if (table.capability != here.capability)
    return "for capability " + std::to_string(table.capability) + ", this is " +
           std::to_string(here.capability);
  if (table.multiprocessors != 0 && table.multiprocessors != here.multiprocessors)
    return "for '" + table.device + "' with " + std::to_string(table.multiprocessors) +
           " multiprocessors, this is '" + here.device + "' with " + std::to_string(here.multiprocessors);
  return {};
}

bool other_library(const TuningHeader& table, const TuningHeader& here) {
  return table.device != "*" && table.lt_version != here.lt_version;
}

// The value of a header's number, or -1.
int64_t header_number(const std::string& line, const std::string& key, int64_t most) {
  std::string value;
  int64_t number = 0;
  return header_value(line, key, &value) && parse_count(value, most, &number) ? number : -1;
}

// Reads a line of the header; null, or what is wrong. `at` counts its lines from 0.
const char* parse_header(const std::string& line, int at, TuningHeader* h) {
  if (at == 0) {
    if (line != std::string(kMagic) + "1" && line != std::string(kMagic) + "2")
      return "expected 'dpi-tuning 1' or 'dpi-tuning 2'";
    h->multiprocessors = line.back() == '2' ? 1 : 0;  // until its own line comes
    return nullptr;
  }
  if (at == 1) return header_value(line, "device", &h->device) ? nullptr : "expected 'device'";
  int64_t number = 0;
  if (at == 2) {
    number = header_number(line, "capability", 10000);
    h->capability = static_cast<int>(number);
    return number < 0 ? "expected 'capability' and a number" : nullptr;
  }
  if (at == 3 && h->multiprocessors != 0) {
    number = header_number(line, "multiprocessors", 1 << 20);
    h->multiprocessors = static_cast<int>(number);
    return number < 1 ? "expected 'multiprocessors' and a number" : nullptr;
  }
  number = header_number(line, "cublaslt", kMaxExtent);
  h->lt_version = static_cast<size_t>(number);
  return number < 0 ? "expected 'cublaslt' and a number" : nullptr;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Code::kNotFound, "tuning table '" + path + "' cannot be opened");
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxBytes) return invalid_argument("tuning table '" + path + "' is larger than 4 MiB");
  return text;
}

Result<std::shared_ptr<const TuningTable>> default_table(const TuningHeader& here) {
  for (int i = 0; i < kEmbeddedTableCount; ++i) {
    DPI_ASSIGN_OR_RETURN(TuningTable t, TuningTable::parse(kEmbeddedTables[i].text, kEmbeddedTables[i].name));
    if (!mismatch(t.header(), here).empty()) continue;
    if (other_library(t.header(), here)) t.drop_library_lines();
    return std::make_shared<const TuningTable>(std::move(t));
  }
  return std::shared_ptr<const TuningTable>();
}

}  // namespace

const char* TuningTable::add_line(const std::vector<std::string>& words) {
  const std::string kind = words.empty() ? "" : words[0];
  const char* what = nullptr;
  if (kind == "small_batch") {
    small_batch::TuningLine line;
    what = small_batch::parse_tuning(words, &line);
    if (what == nullptr) add(line);
  } else if (kind == "lookup") {
    LookupLine lookup;
    what = parse_lookup_tuning(words, &lookup);
    if (what == nullptr) add(lookup);
  } else {
    TuningEntry entry;
    what = parse_entry(words, &entry);
    if (what == nullptr) add(entry);
  }
  return what;
}

Result<TuningTable> TuningTable::parse(std::string_view text, const std::string& name) {
  TuningTable table;
  int64_t line_number = 0;
  const auto wrong = [&](const std::string& what) {
    return invalid_argument("tuning table '" + name + "', line " + std::to_string(line_number) + ": " + what);
  };
  int headers = 0;
  const auto last_header = [&] { return table.header_.multiprocessors != 0 ? 5 : 4; };
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    const bool is_header = headers < last_header();
    const char* what =
        is_header ? parse_header(line, headers++, &table.header_) : table.add_line(words_of(line));
    if (what != nullptr) return wrong(what);
  }
  if (headers < last_header()) return wrong("the table ends before its header does");
  return table;
}

std::string TuningTable::text() const {
  const std::string processors = std::to_string(header_.multiprocessors);
  const bool known = header_.multiprocessors != 0;
  std::string out = std::string(kMagic) + (known ? "2" : "1") + "\ndevice " + header_.device +
                    "\ncapability " + std::to_string(header_.capability) +
                    (known ? "\nmultiprocessors " + processors : "") + "\ncublaslt " +
                    std::to_string(header_.lt_version) +
                    "\n# precision end out in rows implementation tile algorithm microseconds\n";
  char time[32];
  for (const TuningEntry& e : entries_) {
    const bool lt = is_lt(e.choice.impl);
    const bool tile = !lt && e.choice.impl != GemmImpl::kOwnSimt;
    const auto end = std::to_chars(time, time + sizeof(time), e.microseconds, std::chars_format::fixed, 3);
    out += std::string(precision_name(e.precision)) + (e.shape.fused ? " fused " : " plain ") +
           std::to_string(e.shape.out) + " " + std::to_string(e.shape.in) + " " +
           std::to_string(e.shape.rows) + " " + gemm_name(e.choice.impl) + " " +
           (tile              ? std::to_string(tile_side(e.choice.tile))
            : e.choice.staged ? "staged"
                              : "-") +
           " " + (lt ? algo_text(e.choice.algo) : "-") + " " + std::string(time, end.ptr) + "\n";
  }
  for (const small_batch::TuningLine& t : small_batches_) out += small_batch::tuning_text(t) + "\n";
  for (const LookupLine& t : lookup_lines_) out += lookup_tuning_text(t) + "\n";
  return out;
}

const TuningEntry* TuningTable::find(const GemmShape& s, GemmPrecision precision) const {
  const TuningEntry* best = nullptr;
  int64_t nearest = kernels::cuda::kBeyondReach;
  for (const TuningEntry& e : entries_) {
    if (e.precision != precision || e.shape.in != s.in || e.shape.out != s.out || e.shape.fused != s.fused)
      continue;
    const int64_t distance = kernels::cuda::tuned_distance(e.shape.rows, s.rows);
    if (distance >= nearest) continue;
    best = &e;
    nearest = distance;
  }
  return best;
}

size_t TuningTable::drop_library_lines() {
  return std::erase_if(entries_, [](const TuningEntry& e) { return is_lt(e.choice.impl); });
}

Result<std::shared_ptr<const TuningTable>> load_tuning(const std::string& option, const TuningHeader& device,
                                                       std::string* note) {
  if (option == "off") return std::shared_ptr<const TuningTable>();
  if (option.empty() || option == "default") return default_table(device);
  DPI_ASSIGN_OR_RETURN(const std::string text, read_file(option));
  DPI_ASSIGN_OR_RETURN(TuningTable table, TuningTable::parse(text, option));
  if (const std::string other = mismatch(table.header(), device); !other.empty()) {
    *note = "table '" + option + "' is " + other + ": it is left alone";
    return std::shared_ptr<const TuningTable>();
  }
  const size_t dropped = other_library(table.header(), device) ? table.drop_library_lines() : 0;
  if (dropped > 0)
    *note = "table '" + option + "': " + std::to_string(dropped) + " lines about cuBLASLt " +
            std::to_string(table.header().lt_version) + " are left alone, this is " +
            std::to_string(device.lt_version);
  return std::make_shared<const TuningTable>(std::move(table));
}

}  // namespace dpi::backend
