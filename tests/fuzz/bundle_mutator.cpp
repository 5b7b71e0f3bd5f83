#include "fuzz/bundle_mutator.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "fuzz/bundle_image.hpp"
#include "fuzz/manifest_mutator.hpp"
#include "support/odd_words.hpp"

namespace dpi::fuzz {
namespace {

using test::kOddWords;

/// Floats and ids that matter as raw data.
constexpr uint32_t kOddBits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x7f7fffff,
                                 0x80000000, 0x3f800000, 0,          0xffffffff};

size_t below(Random* random, size_t n) { return n == 0 ? 0 : (*random)() % n; }

uint64_t odd_number(const Image& image, const Field& f, Random* random) {
  const uint64_t old = number_at(image, f.at, f.bytes);
  switch (below(random, 6)) {
    case 0:
      return old + 1;
    case 1:
      return old - 1;
    case 2:
      return old * 2;
    case 3:
      return old ^ (uint64_t{1} << below(random, 8 * f.bytes));
    case 4:
      return f.kind == FieldKind::kByte ? (*random)() & 0xff : below(random, image.size());
    default:
      return kOddWords[below(random, std::size(kOddWords))];
  }
}

/// A field gets an odd value, or that of another field of its kind, or two are exchanged.
void change_field(Image* image, const Structures& s, Random* random) {
  if (s.fields.empty()) return;
  // A kind first: single bytes, of names and types, are most of the fields.
  const auto kind = static_cast<FieldKind>(below(random, 6));
  std::vector<Field> fields;
  std::copy_if(s.fields.begin(), s.fields.end(), std::back_inserter(fields),
               [&](const Field& f) { return f.kind == kind; });
  if (fields.empty()) return;
  const Field& a = fields[below(random, fields.size())];
  const Field& b = fields[below(random, fields.size())];
  const uint64_t va = number_at(*image, a.at, a.bytes), vb = number_at(*image, b.at, b.bytes);
  const size_t how = below(random, 3);
  if (how == 0) return put_number(image, a.at, a.bytes, odd_number(*image, a, random));
  put_number(image, a.at, a.bytes, vb);
  if (how == 1) put_number(image, b.at, b.bytes, va);
}

/// Another type or shape of as many bytes, or the places of two data sets exchanged.
void change_set(Image* image, const Structures& s, Random* random) {
  if (s.sets.empty()) return;
  const DataSetPlaces& a = s.sets[below(random, s.sets.size())];
  const DataSetPlaces& b = s.sets[below(random, s.sets.size())];
  const size_t dims = number_at(*image, a.dataspace + 1, 1);
  const size_t how = below(random, 4);
  if (how == 0 && a.datatype_bytes == b.datatype_bytes && b.datatype != 0) {
    std::copy_n(image->begin() + static_cast<ptrdiff_t>(b.datatype), b.datatype_bytes,
                image->begin() + static_cast<ptrdiff_t>(a.datatype));
  } else if (how == 1) {
    for (const size_t at : {size_t{2}, size_t{10}}) {
      const uint64_t va = number_at(*image, a.layout + at, 8), vb = number_at(*image, b.layout + at, 8);
      put_number(image, a.layout + at, 8, vb);
      put_number(image, b.layout + at, 8, va);
    }
  } else if (a.dataspace != 0 && dims > 0 && dims <= 8) {
    const size_t i = a.dataspace + 8 + 8 * below(random, dims), k = a.dataspace + 8 + 8 * below(random, dims);
    const uint64_t vi = number_at(*image, i, 8), vk = number_at(*image, k, 8);
    const uint64_t factor = how == 2 && vi % 2 == 0 ? 2 : vi;
    if (i == k || factor == 0) return;
    const bool has_largest = (number_at(*image, a.dataspace + 2, 1) & 1) != 0;
    for (const size_t largest : {size_t{0}, has_largest ? 8 * dims : size_t{0}}) {
      put_number(image, i + largest, 8, vi / factor);
      put_number(image, k + largest, 8, vk * factor);
    }
  }
}

void change_extents(Image* image, Random* random) {
  const std::vector<ImageExtent> extents = extents_of(*image);
  if (extents.empty()) return;
  const ImageExtent& e = extents[below(random, extents.size())];
  const size_t at = e.entry + 8 * below(random, 2);
  const uint64_t old = number_at(*image, at, 8);
  switch (below(random, 4)) {
    case 0:
      return put_number(image, at, 8, old + 8);
    case 1:
      return put_number(image, at, 8, old - 1);
    case 2:
      return put_number(image, 32, 8, number_at(*image, 32, 8) + below(random, 3) - 1);
    default:
      return put_number(image, at, 8, kOddWords[below(random, std::size(kOddWords))]);
  }
}

/// Weights, rows, ids, offsets, texts: one to sixteen places.
void change_data(Image* image, Random* random, PlainMutate plain) {
  const std::vector<ImageExtent> extents = extents_of(*image);
  if (extents.empty()) return;
  const ImageExtent& e = extents[below(random, extents.size())];
  if (e.length == 0) return;
  if (below(random, 3) == 0) {
    plain(image->data() + e.offset, e.length, e.length);
    return;
  }
  for (size_t n = 1 + below(random, 16); n > 0; --n) {
    const bool wide = e.length >= 8 && below(random, 2) == 0;
    const size_t bytes = wide ? 8 : std::min<size_t>(4, e.length);
    const size_t at = e.offset + below(random, e.length / bytes) * bytes;
    const uint64_t value =
        wide ? kOddWords[below(random, std::size(kOddWords))] : kOddBits[below(random, std::size(kOddBits))];
    put_number(image, at, bytes, value);
  }
}

bool change_manifest(Image* image, size_t most, Random* random, PlainMutate plain) {
  const Structures s = structures_of(*image);
  const std::string old = manifest_of(*image, s);
  std::string text = mutate_manifest(old, random);
  if (text.empty() || below(random, 16) == 0) {  // as text
    text = old;
    text.resize(old.size() + 64, ' ');
    text.resize(plain(reinterpret_cast<uint8_t*>(text.data()), old.size(), text.size()));
  }
  Image changed = *image;
  if (text.empty() || !set_manifest(&changed, s, text) || changed.size() > most) return false;
  *image = std::move(changed);
  return true;
}

/// Of a delta most is data: lists of rows and keys.
void change_delta(Image* image, size_t most, Random* random, PlainMutate plain) {
  switch (below(random, 10)) {
    case 0:
    case 1:
      return change_field(image, structures_of(*image), random);
    case 2:
      return change_set(image, structures_of(*image), random);
    case 3:
      return change_extents(image, random);
    case 4:
      if (change_manifest(image, most, random, plain)) return;
      [[fallthrough]];
    default:
      return change_data(image, random, plain);
  }
}

void change(Image* image, size_t most, Random* random, PlainMutate plain) {
  switch (below(random, 16)) {
    case 0:
    case 1:
      return change_field(image, structures_of(*image), random);
    case 2:
      return change_set(image, structures_of(*image), random);
    case 3:
      return change_extents(image, random);
    case 4:
    case 5:
    case 6:
      return change_data(image, random, plain);
    default:
      if (!change_manifest(image, most, random, plain)) change_data(image, random, plain);
  }
}

}  // namespace

void LoadedInputs::add(InputBytes input, uint32_t random) {
  const Image image(input.begin(), input.end());
  if (kept_.size() < kMost) {
    kept_.push_back(image);
  } else {
    kept_[random % kMost] = image;
  }
}

LoadedInputs& loaded_inputs() {
  static LoadedInputs inputs;
  return inputs;
}

using Change = void (*)(Image* image, size_t most, Random* random, PlainMutate plain);

static size_t mutate(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain,
                     Change one_change) {
  Random random(seed);
  if (below(&random, 64) == 0) return plain(data, size, most);  // the seal itself
  Image image(data, data + size);
  const std::vector<Image>& loaded = loaded_inputs().all();
  if (!loaded.empty() && below(&random, 2) == 0) image = loaded[below(&random, loaded.size())];
  for (size_t n = below(&random, 4) == 0 ? 2 : 1; n > 0; --n) one_change(&image, most, &random, plain);
  reseal(&image);
  if (image.size() > most) return plain(data, size, most);
  std::copy(image.begin(), image.end(), data);
  return image.size();
}

size_t mutate_bundle(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain) {
  return mutate(data, size, most, seed, plain, change);
}

size_t mutate_delta(uint8_t* data, size_t size, size_t most, uint32_t seed, PlainMutate plain) {
  return mutate(data, size, most, seed, plain, change_delta);
}

}  // namespace dpi::fuzz
