// A bundle as bytes to change: where its HDF5 structures have fields, and the seal (digests, hashes, lengths)
// written anew afterwards, so that what was changed is parsed. Walks what FORMAT.md parts 1 and 2 describe,
// with code of its own, and gives up quietly where bytes make no sense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpi::fuzz {

using Image = std::vector<uint8_t>;

struct ImageExtent {
  size_t entry = 0;  // place of its line in the user block
  size_t offset = 0, length = 0;
};

/// What a field of a structure means.
enum class FieldKind { kAddress, kLength, kCount, kDim, kType, kByte };

struct Field {
  size_t at = 0;
  size_t bytes = 8;
  FieldKind kind = FieldKind::kByte;
};

/// The messages of one data set, as places of their bodies; 0 = there is none.
struct DataSetPlaces {
  size_t dataspace = 0, datatype = 0, layout = 0;
  size_t layout_bytes = 0, datatype_bytes = 0;
  std::string path;
};

struct Structures {
  std::vector<Field> fields;
  std::vector<DataSetPlaces> sets;
};

/// A number of the image; 0 past its end.
uint64_t number_at(const Image& image, size_t at, size_t bytes);
/// Nothing past the end.
void put_number(Image* image, size_t at, size_t bytes, uint64_t value);

/// Extents as the user block lists them, up to the first that is not inside the image by rising offset.
std::vector<ImageExtent> extents_of(const Image& image);
Structures structures_of(const Image& image);

/// The bytes of /manifest; empty when it is not found.
std::string manifest_of(const Image& image, const Structures& structures);
/// Writes another: at the end of the file, where it may have any length. False, changing nothing, without
/// /manifest.
bool set_manifest(Image* image, const Structures& structures, std::string_view text);

/// Writes length, digests and hashes anew, as far as the user block can be walked.
void reseal(Image* image);

}  // namespace dpi::fuzz
