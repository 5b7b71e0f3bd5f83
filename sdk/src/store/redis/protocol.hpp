// Commands as Redis takes them and replies as hiredis' parser tells them. Nothing here trusts a reply: its
// kind, its lengths and its nesting are the other end's to choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpi::redis {

/// "*n\r\n", to be followed by n arguments.
void append_count(std::string& out, size_t n);
void append_argument(std::string& out, std::string_view argument);
std::string command(std::initializer_list<std::string_view> arguments);

/// One piece of a reply. Pieces come in order, an array before what it holds; depth 0 is the reply itself.
struct Item {
  enum Kind : uint8_t { kText, kStatus, kError, kInteger, kNil, kArray } kind;
  int depth;
  int index;              // in its array
  std::string_view text;  // kText, kStatus, kError
  int64_t value;          // kInteger; kArray: how many will follow
};

/// Takes one reply. What it answers false to ends the connection: nobody knows what would come next.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  bool take(const Item& item);
  /// For the same command once more.
  void start_over();
  /// What the server refused the command with; empty = it did not.
  const std::string& error() const { return error_; }
  /// The longest text that may come.
  size_t limit() const { return limit_; }

 protected:
  explicit ReplySink(size_t limit) : limit_(limit) {}
  virtual bool on_item(const Item& item) = 0;
  virtual void on_start() = 0;

 private:
  size_t limit_;
  std::string error_;
};

/// A reply of bounded size as a tree; of one kind only, where the command has one.
struct Reply {
  Item::Kind kind = Item::kNil;
  std::string text;
  int64_t value = 0;
  std::vector<Reply> items;
};

class TreeSink final : public ReplySink {
 public:
  explicit TreeSink(Item::Kind expected) : ReplySink(1 << 20), expected_(expected) {}
  const Reply& reply() const { return root_; }

 private:
  bool on_item(const Item& item) override;
  void on_start() override;

  Item::Kind expected_;
  Reply root_;
  std::vector<Reply*> path_;  // the latest of each depth
  size_t spent_ = 0;
};

/// The answer to HMGET: rows to where they belong. With `sealed` one more field is at the end, which tells
/// that its partition is whole.
class RowsSink final : public ReplySink {
 public:
  RowsSink(size_t row_bytes, std::span<const int32_t> which, unsigned char* const* rows, bool sealed);

  /// Of the answer that came: which have no row, positions in `which`.
  const std::vector<int32_t>& absent() const { return absent_; }
  const std::string& seal() const { return seal_; }
  /// -1, or the length of a value that is no row.
  int64_t wrong_length() const { return wrong_length_; }

 private:
  bool on_item(const Item& item) override;
  void on_start() override;
  bool on_field(const Item& item);

  const size_t row_bytes_;
  const std::span<const int32_t> which_;
  unsigned char* const* const rows_;
  const bool sealed_;
  std::vector<int32_t> absent_;
  std::string seal_;
  int64_t wrong_length_ = -1;
};

}  // namespace dpi::redis
