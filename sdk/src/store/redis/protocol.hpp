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

/// How values of a partition are told apart by their length: a row as it was loaded, a row with the number of
/// the update that changed it, the number of the update since which there is none.
struct ValueForm {
  size_t row_bytes = 0, gone_bytes = 0;
  int64_t sequence = 0;  // updates behind this one are newer than the reader's content

  size_t changed_bytes() const { return row_bytes + 8; }
};

/// The answer to HMGET: rows to where they belong. With `sealed` one more field is at the end, which tells
/// that its partition is whole.
class RowsSink final : public ReplySink {
 public:
  RowsSink(const ValueForm& form, std::span<const int32_t> which, unsigned char* const* rows, bool sealed);

  /// Of the answer that came: which have no row, positions in `which`.
  const std::vector<int32_t>& absent() const { return absent_; }
  /// Which have none because an update says so: that needs no seal to be believed.
  const std::vector<int32_t>& gone() const { return gone_; }
  /// How many are of newer updates than the reader's; which one, and of which update; -1, 0 = none.
  int64_t newer() const { return newer_; }
  int32_t newer_at() const { return newer_at_; }
  int64_t newest() const { return newest_; }
  const std::string& seal() const { return seal_; }
  /// -1, or the length of a value that is no row.
  int64_t wrong_length() const { return wrong_length_; }

 private:
  bool on_item(const Item& item) override;
  void on_start() override;
  bool on_field(const Item& item);

  bool take_value(std::string_view value, int32_t which);
  void take_sequence(const char* bytes, int32_t which);

  const ValueForm form_;
  const std::span<const int32_t> which_;
  unsigned char* const* const rows_;
  const bool sealed_;
  std::vector<int32_t> absent_, gone_;
  int64_t newer_ = 0, newest_ = 0;
  int32_t newer_at_ = -1;
  std::string seal_;
  int64_t wrong_length_ = -1;
};

}  // namespace dpi::redis
