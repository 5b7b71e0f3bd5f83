// Reader of one op (FORMAT.md part 7).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "bundle/manifest.hpp"
#include "bundle/manifest/json_lists.hpp"
#include "bundle/manifest/json_rewriter.hpp"

namespace dpi {

/// A list in an op's attributes: integers, until something else turns up and all of it becomes text.
class AttrListReader final : public JsonReader {
 public:
  void start();
  void scalar(JsonScalar&& value) override;
  JsonReader* nested(bool is_object) override;
  void nested_end() override { text_.nested_end(); }
  AttrValue take();

 private:
  void become_text();

  std::vector<int64_t> integers_;
  bool is_text_ = false;
  JsonRewriter text_;
};

class AttrsReader final : public JsonReader {
 public:
  void start() { attrs.clear(); }
  void key(std::string&& name) override { key_ = std::move(name); }
  void scalar(JsonScalar&& value) override;
  JsonReader* nested(bool is_object) override;
  void nested_end() override;

  AttrMap attrs;

 private:
  std::string key_;
  bool in_object_ = false;
  AttrListReader list_;
  JsonRewriter object_;
};

/// Role -> name of a parameter.
class ParamNamesReader final : public JsonReader {
 public:
  void start();
  void key(std::string&& name) override { key_ = std::move(name); }
  void scalar(JsonScalar&& value) override;
  JsonReader* nested(bool is_object) override;

  std::map<std::string, std::string> params;
  std::optional<std::string> wrong;  // the first role, by its name, whose value is no name

 private:
  void refuse();

  std::string key_;
  SkipReader skip_;
};

class OpReader final : public ObjectReader {
 public:
  void start();
  Result<OpSpec> take();

 private:
  static constexpr size_t kMaxInputs = 65536;
  JsonReader* member(std::string_view key, bool is_object) override;

  ValueList<std::string> inputs_{kMaxInputs};
  AttrsReader attrs_;
  ParamNamesReader params_;
};

}  // namespace dpi
