// The four models of the DPIFrame paper (arXiv 2606.21101) as FuxiCTR builds them, at the Criteo_x4 shape: 13
// numerics projected to vectors, 26 categoricals, one flat input, MLP beside the explicit part. Random
// parameters; tables as large as the caller wants.
#pragma once

#include <string>
#include <vector>

#include "support/model_builder.hpp"

namespace dpi::test {

enum class PaperModel { kWideDeep, kDeepFm, kDcn, kDcnV2 };

constexpr const char* paper_model_name(PaperModel m) {
  return m == PaperModel::kWideDeep ? "widedeep"
         : m == PaperModel::kDeepFm ? "deepfm"
         : m == PaperModel::kDcn    ? "dcn"
                                    : "dcnv2";
}

struct PaperShape {
  int numerics = 13;
  int categoricals = 26;
  int64_t vocab = 100;  // rows of each table
  int64_t dim = 16;
  std::vector<int64_t> hidden = {400, 400, 400};
  int cross_layers = 3;
  bool batch_norm = false;
  uint32_t seed = 1;
};

namespace paper {

struct Inputs {
  std::vector<std::string> numeric, categorical;
};

inline Inputs features(ModelBuilder& b, const PaperShape& s) {
  Inputs in;
  for (int i = 1; i <= s.numerics; ++i) in.numeric.push_back(b.numeric("I" + std::to_string(i)));
  for (int i = 1; i <= s.categoricals; ++i)
    in.categorical.push_back(b.categorical("C" + std::to_string(i), s.vocab));
  return in;
}

/// One vector of `dim` per feature, side by side.
inline std::string embeddings(ModelBuilder& b, const PaperShape& s, const Inputs& in, int64_t dim) {
  std::vector<std::string> parts;
  for (const std::string& x : in.numeric) parts.push_back(b.linear(x, 1, dim, false));
  for (const std::string& x : in.categorical) parts.push_back(b.embed(x, s.vocab, dim));
  return b.concat(parts);
}

inline std::string mlp(ModelBuilder& b, const PaperShape& s, std::string x, int64_t width) {
  for (int64_t h : s.hidden) {
    x = b.linear(x, width, h);
    if (s.batch_norm) x = b.affine(x, h);
    x = b.unary("relu", x);
    width = h;
  }
  return x;
}

inline std::string logistic(ModelBuilder& b, const PaperShape& s, const Inputs& in, bool bias) {
  const std::string sum = b.reduce("sum", embeddings(b, s, in, 1), 0, true);
  return bias ? b.unary("affine", sum, {{"a", 1.0}, {"b", 0.05}}) : sum;
}

inline std::string fm(ModelBuilder& b, const std::string& x, int64_t fields, int64_t dim) {
  const std::string e = b.reshape(x, {fields, dim});
  const std::string sum = b.reduce("sum", e, 0, false);
  // One statement an op wherever two have to be made: compilers differ in which argument they evaluate first.
  const std::string squares = b.reduce("sumsq", e, 0, false);
  const std::string pairs = b.binary("sub", b.binary("mul", sum, sum), squares);
  return b.unary("affine", b.reduce("sum", pairs, 0, true), {{"a", 0.5}, {"b", 0.0}});
}

inline std::string cross_v1(ModelBuilder& b, const std::string& x0, int64_t n, int layers) {
  std::string x = x0;
  for (int l = 0; l < layers; ++l) {
    const std::string product = b.binary("mul", x0, b.linear(x, n, 1, false));
    x = b.binary("add", b.binary("add", product, b.constant({n})), x);
  }
  return x;
}

inline std::string cross_v2(ModelBuilder& b, const std::string& x0, int64_t n, int layers) {
  std::string x = x0;
  for (int l = 0; l < layers; ++l) x = b.binary("add", b.binary("mul", x0, b.linear(x, n, n)), x);
  return x;
}

}  // namespace paper

inline ModelBuilder paper_model(PaperModel model, const PaperShape& s) {
  ModelBuilder b(paper_model_name(model), s.seed);
  const paper::Inputs in = paper::features(b, s);
  const int64_t fields = s.numerics + s.categoricals, n = fields * s.dim;
  const std::string x0 = paper::embeddings(b, s, in, s.dim);
  const std::string deep = paper::mlp(b, s, x0, n);
  const int64_t last = s.hidden.empty() ? n : s.hidden.back();
  std::string logit;
  if (model == PaperModel::kWideDeep) {
    const std::string out = b.linear(deep, last, 1);
    logit = b.binary("add", paper::logistic(b, s, in, false), out);
  } else if (model == PaperModel::kDeepFm) {
    const std::string lr = paper::logistic(b, s, in, true);
    const std::string out = b.linear(deep, last, 1);
    logit = b.binary("add", b.binary("add", paper::fm(b, x0, fields, s.dim), lr), out);
  } else {
    const std::string cross = model == PaperModel::kDcn ? paper::cross_v1(b, x0, n, s.cross_layers)
                                                        : paper::cross_v2(b, x0, n, s.cross_layers);
    logit = b.linear(b.concat({cross, deep}), n + last, 1);
  }
  b.head("ctr", b.unary("sigmoid", logit), logit);
  return b;
}

}  // namespace dpi::test
