#include "plan/analysis/form.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "plan/analysis/shift.hpp"

namespace dpi::plan {

bool leading_ones(const Dims& dims, int32_t axis) {
  for (int32_t i = 0; i < axis; ++i) {
    if (dims.d[i] != 1) return false;
  }
  return true;
}

namespace {

/// Position in `in` of element k of `out`, where `in` broadcasts to `out`.
int64_t source_of(int64_t k, const Dims& out, const Dims& in) {
  int64_t at = 0, step = 1;
  for (int i = 0; i < in.rank; ++i) {
    const int64_t extent = out.d[out.rank - 1 - i];
    const int64_t own = in.d[in.rank - 1 - i];
    if (own != 1) at += (k % extent) * step;
    k /= extent;
    step *= own;
  }
  return at;
}

}  // namespace

std::vector<double> unbroadcast(const std::vector<double>& coef, const Dims& out, const Dims& in) {
  std::vector<double> r(static_cast<size_t>(in.size()), 0.0);
  for (size_t k = 0; k < coef.size(); ++k)
    r[static_cast<size_t>(source_of(static_cast<int64_t>(k), out, in))] += coef[k];
  return r;
}

namespace {

/// That a coefficient takes: doubles on the way, a float in the plan.
constexpr int64_t kCoefficientFloats = 4;

class Expander {
 public:
  Expander(const Plan& plan, const Index& index, FormDepth depth, int64_t room)
      : p_(plan), ix_(index), depth_(depth), room_(room) {}

  LinearForm run(int32_t root, std::vector<double> coef) {
    add(root, coef);
    if (!by_op_.empty()) {
      const int32_t op = by_op_.begin()->first;
      Pending first = std::move(by_op_.begin()->second);
      by_op_.erase(by_op_.begin());
      weighed_ = first.weighed;
      if (!expand(p_.ops[static_cast<size_t>(op)], first)) form_.terms.push_back(std::move(first));
    }
    while (!by_op_.empty()) {
      const int32_t op = by_op_.begin()->first;
      Pending next = std::move(by_op_.begin()->second);
      by_op_.erase(by_op_.begin());
      weighed_ = next.weighed;
      if (!may_expand(op, next) || !expand(p_.ops[static_cast<size_t>(op)], next))
        form_.terms.push_back(std::move(next));
    }
    std::reverse(form_.terms.begin(), form_.terms.end());
    for (auto& [value, c] : inputs_) form_.terms.push_back({value, std::move(c), {}});
    return std::move(form_);
  }

 private:
  struct Pending : FormTerm {
    size_t arrivals = 0;
  };
  using Read = std::vector<bool>;  // FormTerm::read

  static void accumulate(std::vector<double>& into, const std::vector<double>& c) {
    if (into.empty()) into.assign(c.size(), 0.0);
    for (size_t i = 0; i < c.size(); ++i) into[i] += c[i];
  }

  static void accumulate(Read& into, const Read& read, bool first) {
    if (first) {
      into = read;
    } else if (read.empty() || into.empty()) {
      into.clear();
    } else {
      for (size_t i = 0; i < read.size(); ++i) into[i] = into[i] || read[i];
    }
  }

  void add(int32_t value, const std::vector<double>& c, const Read& read = {}) {
    if (const std::vector<float>* data = const_data(p_, value)) {
      for (size_t i = 0; i < c.size(); ++i)
        if (read.empty() || read[i]) form_.bias += c[i] * static_cast<double>((*data)[i]);
      return;
    }
    const int32_t op = ix_.producer[static_cast<size_t>(value)];
    if (op < 0) {
      accumulate(inputs_[value], c);
      return;
    }
    Pending& pending = by_op_[op];
    pending.value = value;
    accumulate(pending.read, read, pending.arrivals == 0);
    ++pending.arrivals;
    pending.weighed = pending.weighed || weighed_;
    accumulate(pending.coef, c);
  }

  bool may_expand(int32_t op, const Pending& pending) const {
    const OpKind kind = p_.ops[static_cast<size_t>(op)].kind;
    if (depth_ == FormDepth::kFull && (kind == OpKind::kConcat || kind == OpKind::kView)) return true;
    const auto v = static_cast<size_t>(pending.value);
    return ix_.users[v].size() == pending.arrivals && ix_.head_uses[v] == 0;
  }

  /// Every input gets a coefficient per element.
  bool fits(const PlanOp& op) {
    int64_t floats = 0;
    for (const int32_t v : op.inputs)
      floats += v < 0 || value_of(p_, v).is_bags ? 0 : value_of(p_, v).dims.size() * kCoefficientFloats;
    if (form_.floats + floats > room_) {
      form_.large.push_back(op.name);
      return false;
    }
    form_.floats += floats;
    return true;
  }

  bool expand(const PlanOp& op, const FormTerm& t) {
    const std::vector<double>& c = t.coef;
    if (op.outputs.size() != 1 || !fits(op)) return false;
    const Dims& out = value_of(p_, op.outputs[0]).dims;
    const bool full = depth_ == FormDepth::kFull;
    if (op.kind == OpKind::kBinary) return expand_binary(op, out, t);
    if (op.kind == OpKind::kUnary) return expand_unary(op, out, c, t.read);
    if (op.kind == OpKind::kLinear) return expand_linear(op, out, c);
    if (op.kind == OpKind::kReduce) return full && expand_reduce(op, c);
    if (op.kind == OpKind::kConcat) return full && expand_concat(op, out, t);
    return op.kind == OpKind::kView && full && expand_view(op, t);
  }

  bool expand_binary(const PlanOp& op, const Dims& out, const FormTerm& t) {
    const std::vector<double>& c = t.coef;
    const auto kind = std::get<kernels::BinaryAttrs>(op.attrs).kind;
    const int32_t x = op.inputs[0], y = op.inputs[1];
    if (kind == kernels::BinaryKind::kAdd || kind == kernels::BinaryKind::kSub) {
      // The sum of two computed vectors is not taken apart: fuse_dense makes it a Dense's residual, added
      // while the product is written; taken apart it would be two buffers and two dot products in Tail.
      if (out.size() > 1 && !const_data(p_, x) && !const_data(p_, y)) return false;
      if (depth_ == FormDepth::kFull && (!light_const(x, out, c) || !light_const(y, out, c))) return keep(op);
      add(x, unbroadcast(c, out, value_of(p_, x).dims), same_elements(x, t));
      std::vector<double> right = unbroadcast(c, out, value_of(p_, y).dims);
      if (kind == kernels::BinaryKind::kSub) {
        for (double& v : right) v = -v;
      }
      add(y, right, same_elements(y, t));
      return true;
    }
    const bool mul = kind == kernels::BinaryKind::kMul;
    if (depth_ != FormDepth::kFull || (!mul && kind != kernels::BinaryKind::kDiv)) return false;
    if (const_data(p_, y)) return scale(x, y, out, t, !mul);
    return mul && const_data(p_, x) && scale(y, x, out, t, false);
  }

  /// The read of an operand, element by element as the result's; all elements of one that is repeated.
  Read same_elements(int32_t operand, const FormTerm& t) const {
    return value_of(p_, operand).dims.size() == static_cast<int64_t>(t.coef.size()) ? t.read : Read();
  }

  bool keep(const PlanOp& op) {
    form_.heavy.push_back(op.name);
    return false;
  }

  /// Not a constant, or one that may move into the form's bias.
  bool light_const(int32_t value, const Dims& out, const std::vector<double>& c) const {
    const std::vector<float>* data = const_data(p_, value);
    if (!data) return true;
    std::vector<double> t;
    for (size_t k = 0; k < c.size(); ++k)
      t.push_back(
          (*data)[static_cast<size_t>(source_of(static_cast<int64_t>(k), out, value_of(p_, value).dims))]);
    return is_light(c, t);
  }

  bool scale(int32_t x, int32_t factor, const Dims& out, const FormTerm& t, bool divide) {
    std::vector<double> c = t.coef;
    const std::vector<float>& f = *const_data(p_, factor);
    weighed_ = true;
    for (size_t k = 0; k < c.size(); ++k) {
      if (!t.read.empty() && !t.read[k]) continue;  // 0 it stays, also where the constant is 0 or not finite
      const auto at = static_cast<size_t>(source_of(static_cast<int64_t>(k), out, value_of(p_, factor).dims));
      const double v = static_cast<double>(f[at]);
      c[k] = divide ? c[k] / v : c[k] * v;
    }
    add(x, unbroadcast(c, out, value_of(p_, x).dims), same_elements(x, t));
    return true;
  }

  bool expand_unary(const PlanOp& op, const Dims& out, std::vector<double> c, const Read& read) {
    const auto& a = std::get<kernels::UnaryAttrs>(op.attrs);
    if (a.kind != kernels::UnaryKind::kIdentity && a.kind != kernels::UnaryKind::kAffine) return false;
    if (a.kind == kernels::UnaryKind::kAffine) {
      const bool scalar = op.params[0] < 0 && op.params[1] < 0;
      if (depth_ == FormDepth::kSums && (!scalar || c.size() != 1)) return false;
      const auto last = static_cast<size_t>(out.at(-1));
      std::vector<double> s(last, scalar ? a.a : 1.0), t(last, scalar ? a.b : 0.0);
      if (op.params[0] >= 0)
        s.assign(param_of(p_, op.params[0]).data.begin(), param_of(p_, op.params[0]).data.end());
      if (op.params[1] >= 0)
        t.assign(param_of(p_, op.params[1]).data.begin(), param_of(p_, op.params[1]).data.end());
      if (depth_ == FormDepth::kFull && !is_light(c, t)) return keep(op);
      weighed_ = weighed_ || op.params[0] >= 0;
      for (size_t k = 0; k < c.size(); ++k) {
        form_.bias += c[k] * t[k % last];
        c[k] *= s[k % last];
      }
    }
    add(op.inputs[0], c, read);
    return true;
  }

  bool expand_linear(const PlanOp& op, const Dims& out, const std::vector<double>& c) {
    const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
    if (a.groups != 1 || a.axis != kernels::LinearAxis::kLast) return false;
    if (depth_ == FormDepth::kSums && out.size() != 1) return false;
    const PlanParam& w = param_of(p_, op.params[0]);
    const auto n_out = static_cast<size_t>(out.at(-1));
    const size_t n_in = w.data.size() / n_out;
    std::vector<double> x(c.size() / n_out * n_in, 0.0);
    for (size_t k = 0; k < c.size(); ++k) {
      const float* row = w.data.data() + (k % n_out) * n_in;
      double* into = x.data() + (k / n_out) * n_in;
      for (size_t i = 0; i < n_in; ++i) into[i] += c[k] * static_cast<double>(row[i]);
      if (op.params[1] >= 0)
        form_.bias += c[k] * static_cast<double>(param_of(p_, op.params[1]).data[k % n_out]);
    }
    if (depth_ == FormDepth::kSums && const_data(p_, op.inputs[0]) == nullptr) {
      // The dot product with the last layer's weights is the term; what stands behind it is not taken apart.
      form_.terms.push_back({op.inputs[0], std::move(x), {}, true});
      return true;
    }
    weighed_ = true;
    add(op.inputs[0], x);
    return true;
  }

  bool expand_reduce(const PlanOp& op, const std::vector<double>& c) {
    const auto& a = std::get<kernels::ReduceAttrs>(op.attrs);
    if (op.inputs[1] >= 0 || (a.kind != kernels::ReduceKind::kSum && a.kind != kernels::ReduceKind::kMean))
      return false;
    const Dims& x = value_of(p_, op.inputs[0]).dims;
    int64_t inner = 1;
    for (int i = a.axis + 1; i < x.rank; ++i) inner *= x.d[i];
    const int64_t n = x.d[a.axis];
    const double factor = a.kind == kernels::ReduceKind::kMean
                              ? 1.0 / (static_cast<double>(n) + static_cast<double>(a.eps))
                              : 1.0;
    std::vector<double> cx(static_cast<size_t>(x.size()));
    for (int64_t k = 0; k < x.size(); ++k) {
      const int64_t outer = k / (inner * n);
      cx[static_cast<size_t>(k)] = factor * c[static_cast<size_t>(outer * inner + k % inner)];
    }
    add(op.inputs[0], cx);
    return true;
  }

  bool expand_concat(const PlanOp& op, const Dims& out, const FormTerm& t) {
    const int32_t axis = std::get<kernels::ConcatAttrs>(op.attrs).axis;
    int64_t inner = 1, outer = 1;
    for (int i = axis + 1; i < out.rank; ++i) inner *= out.d[i];
    for (int i = 0; i < axis; ++i) outer *= out.d[i];
    int64_t at = 0;
    for (int32_t v : op.inputs) {
      const int64_t width = value_of(p_, v).dims.d[axis] * inner;
      std::vector<double> part(static_cast<size_t>(outer * width));
      Read read(part.size(), true);
      for (size_t i = 0; i < part.size(); ++i) {
        const auto o = static_cast<int64_t>(i) / width, k = static_cast<int64_t>(i) % width;
        const auto from = static_cast<size_t>(o * out.d[axis] * inner + at + k);
        part[i] = t.coef[from];
        if (!t.read.empty()) read[i] = t.read[from];
      }
      at += width;
      const auto n = std::count(read.begin(), read.end(), true);
      if (n > 0) add(v, part, n == static_cast<int64_t>(read.size()) ? Read() : read);
    }
    return true;
  }

  bool expand_view(const PlanOp& op, const FormTerm& t) {
    const std::vector<double>& c = t.coef;
    const auto& v = std::get<kernels::ViewAttrs>(op.attrs);
    const Dims& x = value_of(p_, op.inputs[0]).dims;
    if (v.kind == kernels::ViewKind::kReshape) {
      add(op.inputs[0], c, t.read);
      return true;
    }
    if (v.kind != kernels::ViewKind::kSlice || !leading_ones(x, v.axis)) return false;
    const int64_t inner = x.size() / x.d[v.axis];
    std::vector<double> cx(static_cast<size_t>(x.size()), 0.0);
    Read read(cx.size(), false);
    for (size_t k = 0; k < c.size(); ++k) {
      cx[static_cast<size_t>(v.begin * inner) + k] = c[k];
      read[static_cast<size_t>(v.begin * inner) + k] = t.read.empty() || t.read[k];
    }
    add(op.inputs[0], cx, read);
    return true;
  }

  const Plan& p_;
  const Index& ix_;
  FormDepth depth_;
  int64_t room_;
  LinearForm form_;
  bool weighed_ = false;                              // FormTerm::weighed of what the op under hand adds
  std::map<int32_t, Pending, std::greater<>> by_op_;  // by producer, last op first
  std::map<int32_t, std::vector<double>> inputs_;
};

}  // namespace

LinearForm linear_form(const Plan& plan, const Index& index, int32_t root, std::vector<double> coef,
                       FormDepth depth, int64_t room) {
  return Expander(plan, index, depth, room).run(root, std::move(coef));
}

}  // namespace dpi::plan
