#include "runtime/describe/metrics_page.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/code_name.hpp"
#include "bundle/manifest/json_reader.hpp"

namespace dpi {

namespace {

/// A value of the counters' JSON: texts are null, since metrics have none.
struct Node {
  enum class Kind { kNull, kBool, kNumber, kObject, kList } kind = Kind::kNull;
  bool truth = false;
  std::string number;
  std::string name;  // of an object: its member "name"
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> members;
};

class NodeReader final : public JsonReader {
 public:
  explicit NodeReader(Node* root) : open_{root} {}

  void key(std::string&& name) override { key_ = std::move(name); }
  void scalar(JsonScalar&& value) override {
    if (key_ == "name" && std::holds_alternative<std::string>(value))
      open_.back()->name = std::get<std::string>(value);
    Node& n = add();
    if (const bool* b = std::get_if<bool>(&value)) {
      n.kind = Node::Kind::kBool;
      n.truth = *b;
    } else if (double number = 0; number_of(value, &number)) {
      n.kind = Node::Kind::kNumber;
      n.number = json_text(value);
    }
  }
  JsonReader* nested(bool is_object) override {
    Node& n = add();
    n.kind = is_object ? Node::Kind::kObject : Node::Kind::kList;
    open_.push_back(&n);
    return this;
  }
  void nested_end() override { open_.pop_back(); }

 private:
  Node& add() {
    open_.back()->members.emplace_back(std::move(key_), std::make_unique<Node>());
    key_.clear();
    return *open_.back()->members.back().second;
  }

  std::vector<Node*> open_;
  std::string key_;
};

/// Numbers that also fall, or that are no counts.
bool is_gauge(std::string_view key) {
  for (const char* k : {"queued", "running", "parked_now", "fetch_p50_us", "fetch_p99_us"})
    if (key == k) return true;
  return key.ends_with("_ms");
}

std::string without_s(std::string_view name) {
  if (name.ends_with('s')) name.remove_suffix(1);
  return std::string(name);
}

/// Names say seconds: `_ms` and `_us` become `_seconds`, and the number with them.
void to_seconds(std::string* name, std::string* number) {
  const double per_second = name->ends_with("_ms") ? 1e3 : name->ends_with("_us") ? 1e6 : 0;
  if (per_second == 0) return;
  name->replace(name->size() - 2, 2, "seconds");
  std::string text;
  append_json_number(&text, std::strtod(number->c_str(), nullptr) / per_second);
  *number = text;
}

class CountersWriter {
 public:
  explicit CountersWriter(MetricsPage* page) : page_(*page) {}

  void write(std::string name, const std::string& key, const MetricLabels& labels, const Node& node) {
    if (node.kind == Node::Kind::kNumber) {
      std::string value = node.number;
      const std::string help = "The library's counter `" + key + "` since the model was loaded.";
      to_seconds(&name, &value);
      is_gauge(key) ? page_.gauge(name, help, labels, value) : page_.counter(name, help, labels, value);
    } else if (node.kind == Node::Kind::kBool) {
      page_.gauge(name, "The library's `" + key + "`.", labels, node.truth ? "1" : "0");
    } else if (node.kind == Node::Kind::kObject) {
      for (const auto& [k, member] : node.members)
        write(name, key, with(labels, without_s(key), key == "errors" ? named(k) : k), *member);
    } else if (node.kind == Node::Kind::kList) {
      for (const auto& [none, element] : node.members)
        for (const auto& [k, member] : element->members)
          write(without_s(name) + "_" + k, k, with(labels, without_s(key), element->name), *member);
    }
  }

 private:
  static MetricLabels with(MetricLabels labels, std::string name, std::string value) {
    labels.emplace_back(std::move(name), std::move(value));
    return labels;
  }
  /// "DPI_E_IO" of "3".
  static std::string named(const std::string& code) {
    int32_t n = 0;
    const auto [end, fault] = std::from_chars(code.data(), code.data() + code.size(), n);
    const bool all = fault == std::errc() && end == code.data() + code.size();
    return all ? code_name(static_cast<Code>(n)) : code;
  }

  MetricsPage& page_;
};

/// The text as a label's value, or as a help.
std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quotes)) out += '\\';
    c == '\n' ? out += "\\n" : out += c;
  }
  return out;
}

}  // namespace

MetricLabels MetricsPage::with(MetricLabels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

/// The shortest digits that read back as `v`; always with a point or an exponent, as OpenMetrics has bounds.
std::string MetricsPage::number(double v) {
  if (!std::isfinite(v)) return std::isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf";
  std::string out;
  append_json_number(&out, v);
  return out;
}

std::string& MetricsPage::family(const std::string& name, const char* type, std::string_view help) {
  Family& f = families_[name];
  if (f.type.empty()) {
    f.type = type;
    f.help = help;
  }
  return f.samples;
}

void MetricsPage::sample(std::string* to, const std::string& name, const MetricLabels& labels,
                         const std::string& value) {
  *to += name;
  for (size_t i = 0; i < labels.size(); ++i) {
    *to += i == 0 ? '{' : ',';
    *to += labels[i].first + "=\"" + escaped(labels[i].second, true) + '"';
  }
  if (!labels.empty()) *to += '}';
  *to += ' ' + value + '\n';
}

void MetricsPage::counter(const std::string& name, std::string_view help, const MetricLabels& labels,
                          const std::string& value) {
  // OpenMetrics names a counter's family without the suffix, the older format with it
  sample(&family(form_.open_metrics ? name : name + "_total", "counter", help), name + "_total", labels,
         value);
}

void MetricsPage::gauge(const std::string& name, std::string_view help, const MetricLabels& labels,
                        const std::string& value) {
  sample(&family(name, "gauge", help), name, labels, value);
}

void MetricsPage::counters(const std::string& json, const MetricLabels& labels,
                           const std::vector<std::string>& without) {
  Node root;
  NodeReader reader(&root);
  read_json(json, &reader);
  CountersWriter writer(this);
  for (const auto& [key, node] : root.members) {
    if (std::find(without.begin(), without.end(), key) == without.end())
      writer.write("dpi_" + key, key, labels, *node);
  }
}

std::string MetricsPage::text() const {
  std::string out;
  for (const auto& [name, f] : families_) {
    out += "# HELP " + name + ' ' + escaped(f.help, form_.open_metrics) + '\n';
    out += "# TYPE " + name + ' ' + f.type + '\n';
    out += f.samples;
  }
  return form_.open_metrics ? out + "# EOF\n" : out;
}

}  // namespace dpi
