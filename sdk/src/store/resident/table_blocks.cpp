#include "store/resident/table_blocks.hpp"

#include <algorithm>

#include "backend/abi/backend_status.hpp"

namespace dpi {

Result<std::shared_ptr<TableBlock>> TableBlock::allocate(const dpi_backend_api* api,
                                                         dpi_backend_device* device,
                                                         std::shared_ptr<const void> owner, uint64_t bytes,
                                                         int64_t spare) {
  std::shared_ptr<TableBlock> block(new TableBlock(api, device, std::move(owner), bytes, spare));
  void* p = nullptr;
  dpi_backend_error err{};
  DPI_RETURN_IF_ERROR(backend_status(
      api->alloc(device, std::max<size_t>(64, bytes), DPI_MEMORY_TABLE, &p, &err), err, "table arena"));
  block->base_ = static_cast<std::byte*>(p);
  return block;
}

Result<std::shared_ptr<TableBlock>> TableBlock::allocate_range(const dpi_backend_api* api,
                                                               dpi_backend_device* device,
                                                               std::shared_ptr<const void> owner,
                                                               const TableRange& range, uint64_t bytes) {
  std::shared_ptr<TableBlock> block(new TableBlock(api, device, std::move(owner), bytes, 0));
  block->in_range_ = true;
  void* p = nullptr;
  dpi_backend_error err{};
  const dpi_range_desc desc = range.desc();
  DPI_RETURN_IF_ERROR(
      backend_status(api->range_alloc(device, &desc, range.kind, bytes, &p, &err), err, "table range"));
  block->base_ = static_cast<std::byte*>(p);
  return block;
}

Status TableBlock::copy_within(uint64_t from, uint64_t to, size_t bytes) {
  std::vector<std::byte> row(bytes);
  dpi_backend_error err{};
  DPI_RETURN_IF_ERROR(
      backend_status(api_->download(device_, row.data(), base_ + from, bytes, &err), err, "merging rows"));
  return backend_status(api_->upload(device_, base_ + to, row.data(), bytes, &err), err, "merging rows");
}

Result<BlockClaims> BlockClaims::claim(SharedParts* parts, const Where& where, const ArenaMap& map,
                                       const std::vector<StoreTable>& tables,
                                       const std::function<Status()>& go_on) {
  BlockClaims c;
  std::vector<std::string> keys;
  for (size_t b = 0; b < map.blocks.size(); ++b) {
    c.key_of_.push_back(map.blocks[b].may_share ? static_cast<int32_t>(keys.size()) : -1);
    if (map.blocks[b].may_share)
      keys.push_back((map.blocks[b].in_range ? where.range : where.device) + block_content(map, tables, b));
  }
  if (keys.empty()) return c;
  DPI_ASSIGN_OR_RETURN(c.claim_, parts->claim(std::move(keys), go_on));
  for (size_t b = 0; b < map.blocks.size(); ++b) {
    if (c.given(b) == nullptr) continue;
    c.given_bytes_ += map.blocks[b].bytes;
    if (map.blocks[b].in_range) c.given_range_bytes_ += map.blocks[b].bytes;
  }
  return c;
}

std::shared_ptr<SharedBlock> BlockClaims::given(size_t block) const {
  if (!may_share(block)) return nullptr;
  return std::static_pointer_cast<SharedBlock>(claim_.part(static_cast<size_t>(key_of_[block])));
}

uint64_t BlockClaims::own_bytes(const ArenaMap& map, const TableRange& range, int32_t device) const {
  uint64_t bytes = 0;
  for (size_t b = 0; b < map.blocks.size(); ++b) {
    const ArenaMap::Block& block = map.blocks[b];
    if (block.is_there || given(b) != nullptr) continue;
    bytes += block.in_range ? range.bytes_on(device, block.bytes) : block.bytes;
  }
  return bytes;
}

void BlockClaims::publish(size_t block, const std::shared_ptr<SharedBlock>& made) {
  if (may_share(block)) claim_.publish(static_cast<size_t>(key_of_[block]), made);
}

}  // namespace dpi
