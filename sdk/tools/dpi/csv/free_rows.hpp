// The deleter of a std::unique_ptr<dpi_rows, FreeRows>.
#pragma once

#include <dpi/dpi.h>

namespace dpi::tool {

struct FreeRows {
  void operator()(dpi_rows* rows) const { dpi_rows_free(rows); }
};

}  // namespace dpi::tool
