// Which rows stay in the host tier: hit rates of Zipf traffic through one shard as parts of the best possible
// one, over lookups a place. `heat_bench [places [keys a place [alpha]]]`; seconds, no disk.
#include <cstdio>
#include <cstdlib>

#include "support/zipf_traffic.hpp"

namespace {

using dpi::test::TrafficShape;
using dpi::test::ZipfTraffic;

/// Each rate is that of the last fifth of the lookups since the rate before, or of one lookup a place.
void print_curve(const char* what, ZipfTraffic* traffic, std::initializer_list<double> until) {
  std::printf("%-28s", what);
  double done = 0;
  for (const double at : until) {
    const double last = std::max((at - done) / 5, std::min(1.0, at - done));
    if (at - done > last) traffic->run(at - done - last);
    std::printf("  %g: %.3f", at, traffic->run(last));
    done = at;
  }
  std::printf("\n");
}

void print_scan(ZipfTraffic* traffic, double keys_a_place) {
  traffic->scan(keys_a_place);
  std::printf("after %g cold keys a place:     %.3f\n", keys_a_place, traffic->run(1));
  traffic->run(20);
}

}  // namespace

int main(int argc, char** argv) {
  TrafficShape shape;
  shape.places = argc > 1 ? std::atoi(argv[1]) : 65536;
  shape.keys = shape.places * int64_t{argc > 2 ? std::atoi(argv[2]) : 10};
  shape.alpha = argc > 3 ? std::atof(argv[3]) : 1.05;
  ZipfTraffic first(shape), list(shape);
  std::printf("%d places, %lld keys, alpha %g: best hit rate %.4f\n", shape.places,
              static_cast<long long>(shape.keys), shape.alpha, first.best());
  first.load_first();
  print_curve("first rows loaded", &first, {1, 5, 20, 50, 100, 200, 400});
  print_scan(&first, 1);
  print_scan(&first, 4);
  first.shift();
  print_curve("then other keys are hot", &first, {1, 5, 20, 50, 100, 200});
  list.load_hottest();
  print_curve("hottest rows loaded", &list, {1, 5, 20, 50, 100, 200, 400});
}
