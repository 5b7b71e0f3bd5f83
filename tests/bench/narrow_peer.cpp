#include "bench/narrow_peer.hpp"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "bench/bench.hpp"
#if DPI_WITH_ONEDNN
#include <dnnl.hpp>
#endif

namespace dpi::bench {

#if DPI_WITH_ONEDNN && DNNL_VERSION_MAJOR < 3
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Tag = memory::format_tag;

struct Layers {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<dnnl::primitive> steps;
  std::vector<std::unordered_map<int, memory>> args;

  void reorder(const memory& from, const memory& to, float scale) {
    dnnl::primitive_attr attr;
    if (scale != 1) attr.set_output_scales(0, {scale});
    steps.push_back(dnnl::reorder(dnnl::reorder::primitive_desc(from, to, attr)));
    args.push_back({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  memory floats(int64_t rows, int64_t columns, uint32_t seed) {
    const memory m({{rows, columns}, Type::f32, Tag::ab}, engine);
    const std::vector<float> v = random_floats(rows * columns, seed);
    std::copy(v.begin(), v.end(), static_cast<float*>(m.get_data_handle()));
    return m;
  }

  /// x -> relu(x W^T), W packed now.
  memory add(const memory& x, int64_t rows, int64_t k, int64_t n, bool int8, bool last) {
    const Type narrow = int8 ? Type::u8 : Type::bf16;
    const memory::desc source({rows, k}, narrow, Tag::any),
        weights({n, k}, int8 ? Type::s8 : narrow, Tag::any);
    const memory::desc result({rows, n}, last ? Type::f32 : narrow, last ? Tag::ab : Tag::any);
    dnnl::post_ops relu;
    relu.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr;
    attr.set_post_ops(relu);
    if (int8) attr.set_output_scales(0, {0.01f});
    using Product = dnnl::inner_product_forward;
    const Product::primitive_desc pd({dnnl::prop_kind::forward_inference, source, weights, result}, attr,
                                     engine);
    memory given = x;
    if (x.get_desc() != pd.src_desc()) {
      given = memory(pd.src_desc(), engine);
      reorder(x, given, int8 && x.get_desc().data_type() == Type::f32 ? 50 : 1);
    }
    const memory packed(pd.weights_desc(), engine), y(pd.dst_desc(), engine);
    reorder(floats(n, k, 3), packed, int8 ? 50 : 1);
    steps.back().execute(stream, args.back());
    stream.wait();
    steps.pop_back();
    args.pop_back();
    steps.push_back(Product(pd));
    args.push_back({{DNNL_ARG_SRC, given}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, y}});
    return y;
  }

  void run() {
    for (size_t i = 0; i < steps.size(); ++i) steps[i].execute(stream, args[i]);
    stream.wait();
  }
};

}  // namespace

std::function<void()> onednn_layers(const std::vector<int64_t>& widths, int64_t rows, bool int8) {
  try {
    auto layers = std::make_shared<Layers>();
    memory x = layers->floats(rows, widths[0], 7);
    for (size_t i = 0; i + 1 < widths.size(); ++i)
      x = layers->add(x, rows, widths[i], widths[i + 1], int8, i + 2 == widths.size());
    return [layers] { layers->run(); };
  } catch (const dnnl::error&) {
    return {};
  }
}
#else
std::function<void()> onednn_layers(const std::vector<int64_t>&, int64_t, bool) { return {}; }
#endif

}  // namespace dpi::bench
