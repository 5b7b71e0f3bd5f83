#include "bundle/manifest/json_rewriter.hpp"

#include <algorithm>

#include "base/json_text.hpp"

namespace dpi {

void JsonRewriter::start(bool is_object) {
  text_.clear();
  open_.clear();
  open(is_object);
}

void JsonRewriter::open(bool is_object) {
  text_ += is_object ? '{' : '[';
  open_.push_back({is_object, true, true, text_.size(), {}});
}

void JsonRewriter::begin_value() {
  Open& o = open_.back();
  if (!o.empty) text_ += ',';
  o.empty = false;
  if (!o.is_object) return;
  o.sorted = o.sorted && (o.pieces.empty() || o.pieces.back().key < key_);
  o.pieces.push_back({key_, text_.size()});
  append_json_string(&text_, key_);
  text_ += ':';
}

void JsonRewriter::scalar(JsonScalar&& value) {
  begin_value();
  text_ += json_text(value);
}

JsonReader* JsonRewriter::nested(bool is_object) {
  begin_value();
  open(is_object);
  return this;
}

void JsonRewriter::close() {
  const Open o = std::move(open_.back());
  open_.pop_back();
  if (!o.sorted) sort(o);
  text_ += o.is_object ? '}' : ']';
}

void JsonRewriter::sort(const Open& object) {
  std::vector<size_t> order(object.pieces.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return object.pieces[a].key < object.pieces[b].key; });
  std::string sorted;
  sorted.reserve(text_.size() - object.begin);
  for (const size_t i : order) {
    const size_t begin = object.pieces[i].begin;
    const size_t end = i + 1 < object.pieces.size() ? object.pieces[i + 1].begin - 1 : text_.size();
    if (!sorted.empty()) sorted += ',';
    sorted.append(text_, begin, end - begin);
  }
  text_.replace(object.begin, std::string::npos, sorted);
}

std::string JsonRewriter::take() {
  close();
  return std::move(text_);
}

}  // namespace dpi
