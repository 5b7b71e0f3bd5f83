#include "store/redis/slots.hpp"

#include <array>
#include <charconv>

namespace dpi::redis {
namespace {

constexpr std::array<uint16_t, 256> make_crc_table() {
  std::array<uint16_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}

constexpr auto kCrc = make_crc_table();

// One node of a range: host, port, and what later versions add.
bool read_node(const Reply& r, const Address& from, Address* out) {
  if (r.kind != Item::kArray || r.items.size() < 2) return false;
  const Reply &host = r.items[0], &port = r.items[1];
  if (port.kind != Item::kInteger || port.value < 0 || port.value > 65535) return false;
  if (host.kind != Item::kText && host.kind != Item::kNil) return false;
  const std::string name = host.text.empty() || host.text == "?" ? from.host : host.text;
  return parse_address(Address{name, static_cast<uint16_t>(port.value)}.text(), out);
}

bool read_range(const Reply& r, const Address& from, SlotRange* out) {
  if (r.kind != Item::kArray || r.items.size() < 3) return false;
  const Reply &first = r.items[0], &last = r.items[1];
  if (first.kind != Item::kInteger || last.kind != Item::kInteger) return false;
  if (first.value < 0 || last.value >= kSlots || first.value > last.value) return false;
  out->first = static_cast<int32_t>(first.value);
  out->last = static_cast<int32_t>(last.value);
  for (size_t i = 2; i < r.items.size(); ++i) {
    Address a;
    if (!read_node(r.items[i], from, &a)) return false;
    out->nodes.push_back(std::move(a));
  }
  return true;
}

}  // namespace

uint16_t slot_of(std::string_view key) {
  const size_t open = key.find('{');
  const size_t close = open == key.npos ? key.npos : key.find('}', open + 1);
  if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  uint16_t crc = 0;
  for (const char c : key)
    crc = static_cast<uint16_t>((crc << 8) ^ kCrc[((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xff]);
  return crc % kSlots;
}

Result<std::vector<SlotRange>> read_slots(const Reply& reply, const Address& from) {
  std::vector<SlotRange> ranges;
  bool good = reply.kind == Item::kArray;
  for (size_t i = 0; good && i < reply.items.size(); ++i) {
    SlotRange range{};
    good = read_range(reply.items[i], from, &range);
    ranges.push_back(std::move(range));
  }
  if (!good) return Status(Code::kIo, "redis " + from.text() + ": the answer to CLUSTER SLOTS is not valid");
  return ranges;
}

bool read_redirection(std::string_view error, std::string_view word, const Address& from, int32_t* slot,
                      Address* to) {
  if (!error.starts_with(word) || error.substr(word.size(), 1) != " ") return false;
  error.remove_prefix(word.size() + 1);
  const auto [end, wrong] = std::from_chars(error.data(), error.data() + error.size(), *slot);
  if (wrong != std::errc() || *slot < 0 || *slot >= kSlots) return false;
  error.remove_prefix(static_cast<size_t>(end - error.data()));
  if (!error.starts_with(' ')) return false;
  error.remove_prefix(1);
  return parse_address(error.starts_with(':') ? from.host + std::string(error) : std::string(error), to);
}

}  // namespace dpi::redis
