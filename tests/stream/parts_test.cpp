// Addresses of streams, and deltas that come in parts.
#include <doctest/doctest.h>

#include <string>

#include "runtime/stream/part_joiner.hpp"
#include "runtime/stream/stream_url.hpp"

namespace dpi::stream::parts_test {
namespace {

dpi_stream_message message(const std::string& bytes, int32_t part, int32_t parts, int64_t offset) {
  dpi_stream_message m{};
  m.kind = DPI_STREAM_MESSAGE;
  m.part = part;
  m.parts = parts;
  m.data = reinterpret_cast<const unsigned char*>(bytes.data());
  m.bytes = static_cast<int64_t>(bytes.size());
  m.offset = offset;
  m.timestamp_ms = 1000 + offset;
  return m;
}

std::string text(const Incoming& in) {
  return {reinterpret_cast<const char*>(in.bytes.data()), in.bytes.size()};
}

}  // namespace

TEST_CASE("an address says where, and settings how") {
  auto u =
      parse_stream_url("kafka://a:9092,b:9093/ctr.deltas/3?group=g%261&properties=/etc/a%20b&max_bytes=4096");
  REQUIRE(u.ok());
  CHECK(u->plugin == "kafka");
  CHECK(u->address == "a:9092,b:9093");
  CHECK(u->topic == "ctr.deltas");
  CHECK(u->partition == 3);
  CHECK(u->group == "g&1");
  CHECK(u->properties == "/etc/a b");
  CHECK(u->max_bytes == 4096);
  CHECK(u->place() == "kafka://a:9092,b:9093/ctr.deltas/3");
  u = parse_stream_url("kafka://a:9092/t");
  REQUIRE(u.ok());
  CHECK(u->partition == 0);
  CHECK(u->max_bytes == 67108864);
}

TEST_CASE("what is wrong with an address is said") {
  const std::pair<const char*, const char*> wrong[] = {
      {"a:9092/t", "has no scheme"},
      {"kafka:///t", "no host"},
      {"kafka://u:p@a:9092/t", "properties"},
      {"kafka://a:9092", "topic '' is none"},
      {"kafka://a:9092/t t", "topic 't t' is none"},
      {"kafka://a:9092/t/x", "partition 'x'"},
      {"kafka://a:9092/t/-1", "partition '-1'"},
      {"kafka://a:9092/t?x=1", "unknown setting 'x'"},
      {"kafka://a:9092/t?group", "is not key=value"},
      {"kafka://a:9092/t?group=%4", "is not key=value"},
      {"kafka://a:9092/t?group=%00", "is not key=value"},
      {"kafka://a:9092/t?group=", "group has 1 .. 255"},
      {"kafka://a:9092/t?max_bytes=1023", "1024 .. 1073741824"},
      {"kafka://a:9092/t?max_bytes=1073741825", "1024 .. 1073741824"},
  };
  for (const auto& [address, part] : wrong) {
    CAPTURE(address);
    const auto u = parse_stream_url(address);
    REQUIRE(!u.ok());
    CHECK(u.status().code() == Code::kInvalidArgument);
    CHECK(u.status().message().find(part) != std::string::npos);
  }
}

TEST_CASE("parts become one delta, from the offset of the first to behind the last") {
  PartJoiner joiner(10);
  Incoming in;
  bool whole = false;
  const std::string alone = "alone";
  REQUIRE(joiner.take(message(alone, 0, 1, 4), &in, &whole).ok());
  CHECK(whole);
  CHECK(text(in) == "alone");
  for (int round = 0; round < 2; ++round) {
    const std::string a = "abc", b = "", c = "defg";
    REQUIRE(joiner.take(message(a, 0, 3, 5), &in, &whole).ok());
    CHECK(!whole);
    CHECK(joiner.begun_at() == 5);
    REQUIRE(joiner.take(message(b, 1, 3, 6), &in, &whole).ok());
    CHECK(!whole);
    REQUIRE(joiner.take(message(c, 2, 3, 8), &in, &whole).ok());
    CHECK(whole);
    CHECK(text(in) == "abcdefg");
    CHECK(in.offset == 5);
    CHECK(in.next_offset == 9);
    CHECK(in.timestamp_ms == 1008);
    CHECK(joiner.begun_at() == -1);
  }
}

TEST_CASE("parts that do not follow one another are refused, and what was kept is forgotten") {
  PartJoiner joiner(10);
  Incoming in;
  bool whole = false;
  const std::string a = "abcd";
  const auto code = [&](int32_t part, int32_t parts) {
    return joiner.take(message(a, part, parts, 1), &in, &whole).code();
  };
  CHECK(code(1, 3) == Code::kBadModel);  // no first
  CHECK(code(0, 3) == Code::kOk);
  CHECK(code(2, 3) == Code::kBadModel);  // no second
  CHECK(joiner.begun_at() == -1);
  CHECK(code(0, 3) == Code::kOk);
  CHECK(code(1, 2) == Code::kBadModel);  // of another set
  CHECK(code(0, 0) == Code::kBadModel);
  CHECK(code(0, 3) == Code::kOk);
  CHECK(code(1, 3) == Code::kOk);
  CHECK(code(2, 3) == Code::kUnsupported);  // 12 bytes
  CHECK(joiner.begun_at() == -1);
  const std::string eleven(11, 'x');
  CHECK(joiner.take(message(eleven, 0, 1, 1), &in, &whole).code() == Code::kUnsupported);
  CHECK(!whole);
}

}  // namespace dpi::stream::parts_test
