// The elements of a text that holds a bag (weights/FORMAT.md part 5, `splitter`).
#pragma once

#include <string_view>

namespace dpi {

/// Walks over a text's elements:
///   BagElements elements(cell, "^");
///   for (std::string_view e; elements.next(&e);) ...
class BagElements {
 public:
  /// The whole text is one element.
  explicit BagElements(std::string_view text) : rest_(text), how_(How::kWhole) {}
  /// The texts between occurrences of `splitter`, empty elements included: k occurrences, k + 1 elements; an
  /// empty text has none. An empty splitter stands for runs of white space, and there no element is empty.
  BagElements(std::string_view text, std::string_view splitter)
      : rest_(text),
        splitter_(splitter),
        how_(splitter.empty() ? How::kWhiteSpace : How::kSplitter),
        done_(text.empty()) {}

  /// False when no element is left.
  bool next(std::string_view* element);

 private:
  enum class How { kWhole, kSplitter, kWhiteSpace };
  bool next_word(std::string_view* element);

  std::string_view rest_, splitter_;
  How how_;
  bool done_ = false;
};

}  // namespace dpi
