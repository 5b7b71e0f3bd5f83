#include "bundle/delta/read_delta_manifest.hpp"

#include "base/text.hpp"
#include "bundle/manifest/json_lists.hpp"

namespace dpi {
namespace {

constexpr size_t kDeltaVersionParts = 2;

class DeltaManifestReader final : public ObjectReader {
 public:
  Result<DeltaManifest> take(uint32_t minor) {
    DeltaManifest m;
    std::string format;
    JsonObject o(members(), "");
    if (o.text("format", &format, JsonObject::kRequired) && format != "dpi-delta")
      o.fail("format is " + in_quotes(format) + ", expected 'dpi-delta'");
    o.list("version", version_.size, kDeltaVersionParts, JsonObject::kRequired);
    if (o.ok() && (version_.size != kDeltaVersionParts || !version_.all_fit || version_.values[0] != 1 ||
                   version_.values[1] != static_cast<int64_t>(minor)))
      o.fail("version is not [1, " + std::to_string(minor) + "], which the user block says");
    o.text("name", &m.name, JsonObject::kRequired);
    digest(&o, "base", &m.base);
    digest(&o, "new", &m.version);
    DPI_RETURN_IF_ERROR(o.finish());
    return m;
  }

 private:
  JsonReader* member(std::string_view key, bool is_object) override {
    return key == "version" && !is_object ? &version_ : nullptr;
  }

  static void digest(JsonObject* o, const char* key, ContentHash* out) {
    std::string text;
    if (o->text(key, &text, JsonObject::kRequired) && !parse_hex(text, *out))
      o->fail(std::string(key) + " is " + in_quotes(text) + ", expected 64 hex digits");
  }

  ValueList<int64_t> version_{kDeltaVersionParts};
};

}  // namespace

Result<DeltaManifest> read_delta_manifest(std::string_view text, uint32_t minor) {
  DPI_ASSIGN_OR_RETURN(const JsonForm form, check_json(text));
  if (form.kind != JsonKind::kObject) return bad_model("is a JSON " + form.type + ", expected an object");
  DeltaManifestReader reader;
  read_json(text, &reader);
  return reader.take(minor);
}

}  // namespace dpi
