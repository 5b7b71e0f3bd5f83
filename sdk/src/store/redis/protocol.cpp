#include "store/redis/protocol.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <initializer_list>

namespace dpi::redis {
namespace {

constexpr size_t kErrorKept = 256;
constexpr size_t kTreeBudget = 16 << 20;  // the slots of a thousand nodes are far below

void append_number(std::string& out, char mark, size_t n) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, n).ptr;
  out += mark;
  out.append(digits, end);
  out += "\r\n";
}

}  // namespace

void append_count(std::string& out, size_t n) { append_number(out, '*', n); }

void append_argument(std::string& out, std::string_view argument) {
  append_number(out, '$', argument.size());
  out += argument;
  out += "\r\n";
}

std::string command(std::initializer_list<std::string_view> arguments) {
  std::string out;
  append_count(out, arguments.size());
  for (const std::string_view a : arguments) append_argument(out, a);
  return out;
}

bool ReplySink::take(const Item& item) {
  if (item.kind != Item::kError) return on_item(item);
  if (item.depth > 0) return false;  // no command of ours has errors within its answer
  error_ = item.text.empty() ? "an error without a text" : item.text.substr(0, kErrorKept);
  return true;
}

void ReplySink::start_over() {
  error_.clear();
  on_start();
}

void TreeSink::on_start() {
  root_ = {};
  path_.clear();
  spent_ = 0;
}

bool TreeSink::on_item(const Item& item) {
  const bool absent = item.kind == Item::kNil && expected_ == Item::kText;
  if (item.depth == 0 && item.kind != expected_ && !absent) return false;
  spent_ += sizeof(Reply) + item.text.size();
  if (spent_ > kTreeBudget || item.depth > static_cast<int>(path_.size())) return false;
  path_.resize(static_cast<size_t>(item.depth));
  Reply* at = &root_;
  if (!path_.empty()) at = &path_.back()->items.emplace_back();
  at->kind = item.kind;
  at->text = item.text;
  at->value = item.value;
  path_.push_back(at);
  return true;
}

RowsSink::RowsSink(const ValueForm& form, std::span<const int32_t> which, unsigned char* const* rows,
                   bool sealed)
    : ReplySink(std::max<size_t>(form.changed_bytes(), 4096)),
      form_(form),
      which_(which),
      rows_(rows),
      sealed_(sealed) {}

void RowsSink::on_start() {
  absent_.clear();
  gone_.clear();
  newer_ = newest_ = 0;
  newer_at_ = -1;
  seal_.clear();
  wrong_length_ = -1;
}

bool RowsSink::on_item(const Item& item) {
  if (item.depth == 0)
    return item.kind == Item::kArray && item.value == static_cast<int64_t>(which_.size() + (sealed_ ? 1 : 0));
  return item.depth == 1 && on_field(item);
}

bool RowsSink::on_field(const Item& item) {
  if (item.kind != Item::kText && item.kind != Item::kNil) return false;
  const auto i = static_cast<size_t>(item.index);
  if (i == which_.size()) {
    seal_ = item.text;
  } else if (item.kind == Item::kNil) {
    absent_.push_back(which_[i]);
  } else if (!take_value(item.text, which_[i])) {
    wrong_length_ = static_cast<int64_t>(item.text.size());
  }
  return true;
}

bool RowsSink::take_value(std::string_view value, int32_t which) {
  if (value.size() == form_.gone_bytes) {
    gone_.push_back(which);
    take_sequence(value.data(), which);
    return true;
  }
  const bool changed = value.size() == form_.changed_bytes();
  if (!changed && value.size() != form_.row_bytes) return false;
  std::memcpy(rows_[which], value.data(), form_.row_bytes);
  if (changed) take_sequence(value.data() + form_.row_bytes, which);
  return true;
}

void RowsSink::take_sequence(const char* bytes, int32_t which) {
  int64_t sequence = 0;
  for (int i = 7; i >= 0; --i) sequence = sequence << 8 | static_cast<unsigned char>(bytes[i]);
  if (sequence <= form_.sequence) return;
  ++newer_;
  newer_at_ = which;
  newest_ = std::max(newest_, sequence);
}

}  // namespace dpi::redis
