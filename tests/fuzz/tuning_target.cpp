// Tables of measured choices (option `tuning`): refused with the line, or read so that what is written of
// them reads the same.
#include <string>
#include <string_view>

#include "backend/cuda/tuning/tuning.hpp"
#include "fuzz/target.hpp"
#include "support/outcome.hpp"

// The plugin's measured tables are not part of this program (the embedded tables' file of the build).
namespace dpi::backend {
const EmbeddedTable kEmbeddedTables[] = {{nullptr, nullptr}};
const int kEmbeddedTableCount = 0;
}  // namespace dpi::backend

namespace dpi::fuzz {
namespace {

using backend::TuningTable;

void run(InputBytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto table = TuningTable::parse(text, "t");
  if (!table.ok()) {
    expect(table.status().code() == Code::kInvalidArgument, "a table that is wrong is an invalid argument");
    expect(table.status().message().find("line ") != std::string::npos, "the line is named");
    return;
  }
  mark_loaded();
  const std::string written = table->text();
  const auto again = TuningTable::parse(written, "t");
  expect(again.ok(), "what was written is read");
  expect(again->text() == written, "and written the same");
  expect(again->entries().size() == table->entries().size(), "no entry is lost");
  for (const auto& entry : table->entries()) {
    const auto* found = table->find(entry.shape, entry.precision);
    expect(found != nullptr && found->shape.rows == entry.shape.rows, "an entry is found by its own shape");
  }
  if (!table->entries().empty() || !table->small_batches().empty() || table->lookups().count > 0)
    mark_predicted();
}

}  // namespace

const Target kTuningTarget{"tuning", run, nullptr};

}  // namespace dpi::fuzz
