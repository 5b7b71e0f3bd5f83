#include "soak/subjects.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace dpi::soak {

using fuzz::Error;
using fuzz::expect;

namespace {

constexpr size_t kRawRows = 12;
constexpr int64_t kBatches[] = {1, 7, 64};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  expect(in.good(), "the demo's files can be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Cells between commas; the demo's files have no quotes.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream cells(line);
  for (std::string cell; std::getline(cells, cell, ',');) out.push_back(cell);
  return out;
}

RawRows read_rows(const dpi_model* model, const std::string& csv) {
  RawRows out;
  std::istringstream lines(read_file(csv));
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> header = cells_of(line);
  while (out.cells.size() < kRawRows && std::getline(lines, line)) {
    const std::vector<std::string> cells = cells_of(line);
    std::vector<std::string> row(static_cast<size_t>(fuzz::info_of(model).num_features));
    for (size_t c = 0; c < cells.size(); ++c) {
      const int32_t f = dpi_model_feature_index(model, header[c].c_str());
      if (f >= 0) row[static_cast<size_t>(f)] = cells[c];
    }
    out.cells.push_back(std::move(row));
  }
  expect(out.cells.size() == kRawRows, "the demo's file has rows");
  return out;
}

void set_cell(dpi_rows* rows, int32_t feature, int32_t kind, const std::string& cell) {
  std::istringstream elements(cell);
  std::string element;
  if (kind != DPI_FEATURE_SEQUENCE) {
    expect(dpi_rows_set_text(rows, feature, cell.c_str(), -1, nullptr) == DPI_OK, "a cell is taken");
    return;
  }
  while (std::getline(elements, element, '|')) {
    expect(dpi_rows_set_text(rows, feature, element.c_str(), -1, nullptr) == DPI_OK, "an element is taken");
  }
}

}  // namespace

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> score(dpi_model* model, const dpi_batch& batch) {
  std::vector<float> out(static_cast<size_t>(batch.rows * fuzz::info_of(model).num_heads), -1.0f);
  Error error;
  const dpi_status s = dpi_predict(model, &batch, out.data(), out.size(), nullptr, &error);
  if (s != DPI_OK) std::fprintf(stderr, "soak: %s\n", error.message);
  expect(s == DPI_OK, "a model in service scores");
  return out;
}

std::vector<float> score_raw(dpi_model* model, const RawRows& raw) {
  dpi_rows* made = nullptr;
  expect(dpi_rows_create(model, &made, nullptr) == DPI_OK, "rows can be made");
  const Owned<dpi_rows> rows(made);
  for (const auto& cells : raw.cells) {
    expect(dpi_rows_begin(made, nullptr) == DPI_OK, "a row can be begun");
    for (size_t f = 0; f < cells.size(); ++f) {
      const auto feature = static_cast<int32_t>(f);
      set_cell(made, feature, fuzz::feature_of(model, feature).kind, cells[f]);
    }
  }
  std::vector<float> out(raw.cells.size() * static_cast<size_t>(fuzz::info_of(model).num_heads), -1.0f);
  Error error;
  const dpi_status s = dpi_rows_predict(made, out.data(), out.size(), nullptr, &error);
  if (s != DPI_OK) std::fprintf(stderr, "soak: %s\n", error.message);
  expect(s == DPI_OK, "raw rows are scored");
  return out;
}

Subject::Subject(const std::string& bundle, const std::string& csv, const std::string& device)
    : path_(bundle), device_(device), bytes_(read_file(bundle)) {
  served_ = load(0);
  for (const int64_t rows : kBatches) {
    cases_.push_back({std::make_unique<SomeRows>(served_.get(), rows, static_cast<uint32_t>(rows)), {}});
    cases_.back().scores = score(served_.get(), cases_.back().rows->batch);
  }
  raw_ = read_rows(served_.get(), csv);
  raw_.scores = score_raw(served_.get(), raw_);
}

Owned<dpi_model> Subject::load(uint32_t random) const {
  const Owned<dpi_options> options(dpi_options_create());
  fuzz::set(options.get(), "device", device_);
  fuzz::set(options.get(), "determinism", "strict");
  fuzz::set(options.get(), "max_contexts", random % 3 == 0 ? "2" : "16");
  fuzz::set(options.get(), "threads", random % 5 == 0 ? "3" : "1");
  fuzz::set(options.get(), "max_rows", random % 4 == 0 ? "16" : "256");
  fuzz::set(options.get(), "max_nnz", "4096");
  fuzz::set(options.get(), "verify", random % 7 == 1 ? "golden" : "off");
  Error error;
  dpi_model* model = nullptr;
  const dpi_status s =
      random % 2 == 0 ? dpi_model_load(path_.c_str(), options.get(), &model, &error)
                      : dpi_model_load_memory(bytes_.data(), bytes_.size(), options.get(), &model, &error);
  if (s != DPI_OK) std::fprintf(stderr, "soak: %s: %s\n", path_.c_str(), error.message);
  expect(s == DPI_OK, "a sound bundle loads");
  return Owned<dpi_model>(model);
}

Owned<dpi_model> Subject::take() {
  const std::lock_guard guard(lock_);
  dpi_model_retain(served_.get());
  return Owned<dpi_model>(served_.get());
}

void Subject::swap(Owned<dpi_model> next) {
  const std::lock_guard guard(lock_);
  served_.swap(next);
}  // the old one goes when the last thread that took it is done

std::vector<std::string> usable_devices(const std::vector<std::string>& wanted) {
  std::vector<std::string> out;
  for (const std::string& device : wanted) {
    if (device != "cuda_emu" || std::getenv("DPI_BACKEND_DIR") != nullptr) {
      out.push_back(device);
    } else {
      std::fprintf(stderr, "soak: without DPI_BACKEND_DIR there is no %s; left out\n", device.c_str());
    }
  }
  return out;
}

}  // namespace dpi::soak
