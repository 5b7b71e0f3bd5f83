#include "fuzz/manifest_mutator.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "fuzz/manifest_parts.hpp"

namespace dpi::fuzz {
namespace {

constexpr size_t kMostText = size_t{64} << 10;

class Mutator {
 public:
  Mutator(Json* doc, Random* random) : doc_(*doc), random_(*random) {}

  void change() {
    using Change = void (Mutator::*)();
    // Twice: what is most likely to leave a model that loads.
    constexpr Change kChanges[] = {
        &Mutator::number,    &Mutator::number,    &Mutator::word,   &Mutator::word,      &Mutator::remove,
        &Mutator::add_key,   &Mutator::duplicate, &Mutator::swap,   &Mutator::insert_op, &Mutator::insert_op,
        &Mutator::insert_op, &Mutator::rewire,    &Mutator::rewire, &Mutator::attribute, &Mutator::attribute,
        &Mutator::feature,   &Mutator::feature,   &Mutator::steps,  &Mutator::head,      &Mutator::another};
    (this->*kChanges[below(std::size(kChanges))])();
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

  void collect(Json& at, std::vector<Json*>* out, bool (*wanted)(const Json&)) {
    if (wanted(at)) out->push_back(&at);
    if (at.is_structured()) {
      for (Json& child : at) collect(child, out, wanted);
    }
  }
  /// Some value of a kind; null when there is none.
  Json* any(bool (*wanted)(const Json&)) {
    std::vector<Json*> found;
    collect(doc_, &found, wanted);
    return found.empty() ? nullptr : one_of(found);
  }
  Json* list(const char* key) {
    const auto found = doc_.find(key);
    return found != doc_.end() && found->is_array() && !found->empty() ? &*found : nullptr;
  }
  Json* member(const char* key) {
    Json* all = list(key);
    Json* one = all == nullptr ? nullptr : &(*all)[below(all->size())];
    return one != nullptr && one->is_object() ? one : nullptr;
  }

  Json odd_number(const Json& old) {
    const double v = old.is_number() ? old.get<double>() : 0.0;
    const int64_t i = std::abs(v) < 9e15 ? static_cast<int64_t>(v) : 0;
    switch (below(12)) {
      case 0:
        return i + 1;
      case 1:
        return i - 1;
      case 2:
        return i * 2;
      case 3:
        return i / 2;
      case 4:
        return -i;
      case 5:
        return v + 0.5;
      case 6:
        return kOddIntegers[below(std::size(kOddIntegers))];
      case 7:
        return kOddFloats[below(std::size(kOddFloats))];
      case 8:
        return i + 16;
      default:
        return static_cast<int64_t>(below(9));
    }
  }
  void number() {
    if (Json* at = any([](const Json& j) { return j.is_number(); })) *at = odd_number(*at);
  }
  /// A text becomes another one of the document, or a word of the format, or no name at all.
  void word() {
    const auto is_text = [](const Json& j) { return j.is_string(); };
    Json* at = any(is_text);
    if (at == nullptr) return;
    switch (below(6)) {
      case 0:
        *at = kOddTexts[below(std::size(kOddTexts))];
        break;
      case 1:
      case 2:
        *at = kWords[below(std::size(kWords))];
        break;
      default:
        *at = Json(*any(is_text));
    }
  }
  void remove() {
    Json* at = any([](const Json& j) { return j.is_structured() && !j.empty(); });
    if (at == nullptr || at == &doc_) return;
    at->erase(std::next(at->begin(), static_cast<ptrdiff_t>(below(at->size()))));
  }
  void add_key() {
    Json* at = any([](const Json& j) { return j.is_object(); });
    if (at == nullptr) return;
    const Json* value = any([](const Json& j) { return !j.is_structured(); });
    (*at)[kKeys[below(std::size(kKeys))]] = value == nullptr ? Json(below(5)) : Json(*value);
  }
  void duplicate() {
    Json* at = any([](const Json& j) { return j.is_array() && !j.empty() && j.size() < 300; });
    if (at == nullptr) return;
    Json copy = (*at)[below(at->size())];
    if (copy.is_object() && copy.contains("name") && below(4) != 0) copy["name"] = fresh_name();
    at->insert(at->begin() + static_cast<ptrdiff_t>(below(at->size() + 1)), std::move(copy));
  }
  void swap() {
    Json* at = any([](const Json& j) { return j.is_array() && j.size() > 1; });
    if (at != nullptr) std::swap((*at)[below(at->size())], (*at)[below(at->size())]);
  }
  /// Any value becomes a copy of any other.
  void another() {
    Json* to = any([](const Json&) { return true; });
    const Json from = *any([](const Json& j) { return !j.is_object(); });
    if (to != &doc_ && from.dump().size() < 4096) *to = from;
  }

  std::string fresh_name() { return "f" + std::to_string(random_() % 100'000); }

  /// A name of the list `key` before place `end`.
  Json name_before(Json& all, size_t end) {
    const Json& one = all[below(std::min(end, all.size()))];
    return one.is_object() && one.contains("name") ? one["name"] : Json("none");
  }
  Json name_in(const char* key) {
    Json* all = list(key);
    return all == nullptr ? Json("none") : name_before(*all, all->size());
  }

  /// An op between a value and those who read it.
  void insert_op() {
    Json* ops = list("ops");
    if (ops == nullptr || ops->size() > 400) return;
    const size_t place = 1 + below(ops->size());
    Json op = Json::parse(kOps[below(std::size(kOps))]);
    const Json source = name_before(*ops, place);
    op["name"] = fresh_name();
    op["v"] = 1;
    for (Json& in : op["in"]) in = below(3) == 0 ? name_before(*ops, place) : source;
    if (op["attrs"].contains("table")) op["attrs"]["table"] = name_in("tables");
    if (op["attrs"].contains("feature")) op["attrs"]["feature"] = name_in("features");
    if (op.contains("params")) borrow_params(*ops, &op);
    if (below(2) == 0) change_attribute(&op["attrs"]);
    const Json name = op["name"];
    ops->insert(ops->begin() + static_cast<ptrdiff_t>(place), std::move(op));
    for (size_t k = place + 1; k < ops->size(); ++k) replace_input(&(*ops)[k], source, name);
    if (Json* head = member("heads"); head != nullptr && head->value("value", Json()) == source)
      (*head)["value"] = name;
  }
  void replace_input(Json* op, const Json& old, const Json& name) {
    if (!op->is_object() || !op->contains("in") || !(*op)["in"].is_array() || below(4) == 0) return;
    for (Json& in : (*op)["in"]) {
      if (in == old) in = name;
    }
  }
  /// Parameters that other ops have.
  void borrow_params(Json& ops, Json* op) {
    std::vector<Json> names;
    for (const Json& o : ops) {
      if (!o.is_object() || !o.contains("params") || !o["params"].is_object()) continue;
      for (const Json& p : o["params"]) names.push_back(p);
    }
    for (Json& p : (*op)["params"]) p = names.empty() ? Json("none") : one_of(names);
  }
  void rewire() {
    Json* ops = list("ops");
    if (ops == nullptr) return;
    const size_t place = below(ops->size());
    Json& op = (*ops)[place];
    if (!op.is_object() || !op.contains("in") || !op["in"].is_array() || op["in"].empty()) return;
    Json& in = op["in"];
    switch (below(6)) {
      case 0:
        in.push_back(name_before(*ops, place));
        break;
      case 1:
        in.erase(in.begin() + static_cast<ptrdiff_t>(below(in.size())));
        break;
      default:
        in[below(in.size())] = name_before(*ops, below(16) == 0 ? ops->size() : place);
    }
  }
  void change_attribute(Json* attrs) {
    const Attribute& a = kAttributes[below(std::size(kAttributes))];
    if (attrs->is_object()) (*attrs)[a.key] = Json::parse(a.values[below(a.values.size())]);
  }
  void attribute() {
    if (Json* op = member("ops"); op != nullptr && op->contains("attrs")) change_attribute(&(*op)["attrs"]);
  }
  void feature() {
    Json* f = member("features");
    if (f == nullptr) return;
    const Attribute& a = kFeatureKeys[below(std::size(kFeatureKeys))];
    (*f)[a.key] = Json::parse(a.values[below(a.values.size())]);
  }
  void steps() {
    Json* f = member("features");
    if (f == nullptr) return;
    Json& encoder = (*f)["encoder"];
    if (!encoder.is_object()) encoder = Json::object();
    Json& all = encoder["steps"];
    if (!all.is_array()) all = Json::array();
    if (!all.empty() && below(3) == 0) all.erase(all.begin() + static_cast<ptrdiff_t>(below(all.size())));
    all.insert(all.begin() + static_cast<ptrdiff_t>(below(all.size() + 1)),
               Json::parse(kSteps[below(std::size(kSteps))]));
    if (below(4) == 0) encoder["splitter"] = kSplitters[below(std::size(kSplitters))];
    if (below(4) == 0) encoder["missing_element"] = below(3);
  }
  void head() {
    Json* h = member("heads");
    if (h != nullptr) (*h)[below(2) == 0 ? "value" : "logit"] = name_in("ops");
    if (below(3) == 0) doc_.erase("golden");
  }

  Json& doc_;
  Random& random_;
};

}  // namespace

std::string mutate_manifest(std::string_view text, Random* random) {
  if (text.size() > kMostText) return {};
  Json doc = Json::parse(text, nullptr, false);
  if (doc.is_discarded() || !doc.is_object()) return {};
  size_t n = 1;
  while (n < 4 && (*random)() % 3 == 0) ++n;
  for (; n > 0; --n) Mutator(&doc, random).change();
  return doc.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dpi::fuzz
