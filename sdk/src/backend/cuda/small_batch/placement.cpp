#include "backend/cuda/small_batch/placement.hpp"

#include <algorithm>

namespace dpi::backend::small_batch {

namespace gpu = kernels::cuda::small_batch;

namespace {

constexpr int32_t kAlign = 128;

// Rows of a product's input are 16 bytes apart modulo 128: its tiles then load without bank conflicts.
int32_t product_pitch(int32_t columns, int32_t element_bytes) {
  const int32_t per_line = 128 / element_bytes;
  const int32_t shift = 16 / element_bytes;
  const int32_t least = round_up(columns, gpu::kBlockDepth);
  return round_up(std::max(least - shift, 0), per_line) + shift;
}

struct Images {
  bool wide = false;
  bool narrow = false;
};

Images images_of(const BatchValue& v, gpu::Mode mode, Exactness exactness) {
  constexpr int32_t kShort = 64;  // columns
  if (!v.is_read()) return {};
  if (gpu::element_bytes(mode) == 4) return {true, false};
  bool wide = v.exact || (v.factor && (exactness == Exactness::kAll || !v.product));
  if (exactness == Exactness::kLittle) wide = v.wide || (wide && v.columns <= kShort);
  return {wide, v.product || !wide};
}

struct Block {
  int32_t begin;
  int32_t end;
  int32_t first;
  int32_t last;
};

// First fit among the blocks that are alive at the same time.
int32_t place(const std::vector<Block>& blocks, const BatchValue& v, int32_t begin, int32_t bytes) {
  int32_t at = begin;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Block& b : blocks) {
      const bool together = v.first <= b.last && b.first <= v.last;
      if (!together || at + bytes <= b.begin || b.end <= at) continue;
      at = b.end;
      moved = true;
    }
  }
  return at;
}

}  // namespace

gpu::View Placement::view_of(const Ref& r) const {
  if (r.value < 0) return {};
  gpu::View v = views[static_cast<size_t>(r.value)];
  if (v.wide_at >= 0) v.wide_at += r.column * 4;
  if (v.narrow_at >= 0) v.narrow_at += r.column * 2;
  return v;
}

Placement place_values(const BatchModel& model, gpu::Mode mode, Exactness exactness, int32_t begin) {
  Placement l;
  l.begin = round_up(begin, kAlign);
  l.end = l.begin;
  l.views.resize(model.values.size());
  // Values that are cleared come first and are all alive at the start: one range of bytes.
  std::vector<size_t> order;
  for (const bool zeroed : {true, false}) {
    for (size_t i = 0; i < model.values.size(); ++i) {
      if (model.values[i].zeroed == zeroed) order.push_back(i);
    }
  }
  std::vector<Block> blocks;
  for (const size_t i : order) {
    const BatchValue& v = model.values[i];
    const Images images = images_of(v, mode, exactness);
    const auto take = [&](int32_t pitch, int32_t element_bytes) {
      const int32_t bytes = round_up(gpu::kTileRows * pitch * element_bytes, kAlign);
      const int32_t at = place(blocks, v, l.begin, bytes);
      blocks.push_back({at, at + bytes, v.first, v.last});
      l.end = std::max(l.end, at + bytes);
      if (v.zeroed) l.zero_bytes = std::max(l.zero_bytes, at + bytes - l.begin);
      return at;
    };
    gpu::View& view = l.views[i];
    if (images.wide) {
      // Products that write the value write its padding too.
      view.wide_pitch = images.narrow ? round_up(v.columns, gpu::kBlockDepth)
                        : v.product   ? product_pitch(v.columns, 4)
                                      : round_up(v.columns, 4);
      view.wide_at = take(view.wide_pitch, 4);
    }
    if (images.narrow) {
      view.narrow_pitch = product_pitch(v.columns, 2);
      view.narrow_at = take(view.narrow_pitch, 2);
    }
  }
  return l;
}

// ---- products

int32_t product_blocks(const Node& s) { return round_up(s.in[0].n, gpu::kBlockDepth) / gpu::kBlockDepth; }
int32_t product_tiles(const Node& s) { return round_up(s.out[0].n, gpu::kTileColumns) / gpu::kTileColumns; }

namespace {

struct Tile {
  int32_t node;
  int32_t tile;
  int32_t blocks;
};

// Tiles [begin, end) as one round: the warps are shared out evenly, the first tiles get what is left over.
RoundPlan make_round(const std::vector<Tile>& tiles, size_t begin, size_t end, int32_t warps) {
  RoundPlan r;
  r.units.resize(static_cast<size_t>(warps));
  const auto n = static_cast<int32_t>(end - begin);
  int32_t warp = 0;
  for (int32_t i = 0; i < n; ++i) {
    const Tile& t = tiles[begin + static_cast<size_t>(i)];
    const int32_t share = warps / n + (i < warps % n ? 1 : 0);
    const int32_t slices = std::max(1, std::min(share, t.blocks));
    r.tiles.push_back({t.node, t.tile, warp, slices});
    for (int32_t s = 0; s < slices; ++s)
      r.units[static_cast<size_t>(warp++)] = {t.node, t.tile, t.blocks * s / slices,
                                              t.blocks * (s + 1) / slices};
  }
  return r;
}

std::vector<Tile> tiles_of_level(const BatchModel& model, int32_t level) {
  std::vector<Tile> tiles;
  for (size_t i = 0; i < model.nodes.size(); ++i) {
    const Node& s = model.nodes[i];
    if (s.kind != NodeKind::kProduct || s.level != level) continue;
    for (int32_t t = 0; t < product_tiles(s); ++t)
      tiles.push_back({static_cast<int32_t>(i), t, product_blocks(s)});
  }
  return tiles;
}

}  // namespace

std::vector<RankPlan> divide_products(const BatchModel& model, int32_t ranks, int32_t warps) {
  std::vector<RankPlan> plans(static_cast<size_t>(ranks));
  for (int32_t level = 1; level <= model.n_levels; ++level) {
    const std::vector<Tile> tiles = tiles_of_level(model, level);
    const auto n = static_cast<int32_t>(tiles.size());
    const int32_t most = (n + ranks - 1) / ranks;
    const int32_t rounds = (most + warps - 1) / warps;
    for (int32_t r = 0; r < ranks; ++r) {
      const auto first = static_cast<size_t>(n * r / ranks);
      const auto last = static_cast<size_t>(n * (r + 1) / ranks);
      auto& level_rounds = plans[static_cast<size_t>(r)].levels.emplace_back();
      for (int32_t i = 0; i < rounds; ++i) {
        const size_t begin = first + (last - first) * static_cast<size_t>(i) / static_cast<size_t>(rounds);
        const size_t end = first + (last - first) * static_cast<size_t>(i + 1) / static_cast<size_t>(rounds);
        level_rounds.push_back(make_round(tiles, begin, end, warps));
      }
    }
  }
  return plans;
}

}  // namespace dpi::backend::small_batch
