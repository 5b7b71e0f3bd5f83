// Reads record files (weights/RECORD.md). What is read was written by somebody: nothing in it is believed
// before it is checked, and every refusal names the place. A file that is still being written, or whose
// writer was killed, is read up to its last whole frame.
//
//   DPI_ASSIGN_OR_RETURN(auto reader, RecordReader::open(std::move(source), path));
//   for (;;) {
//     DPI_ASSIGN_OR_RETURN(const bool more, reader->next());
//     if (!more) break;
//     ... reader->request() ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/content_hash.hpp"
#include "runtime/record/record_layout.hpp"
#include "runtime/request/request.hpp"

namespace dpi {

/// A version whose requests are in the file.
struct RecordedBundle {
  ContentHash bundle{};
  uint64_t number = 0;
  uint64_t schema_digest = 0;
  std::string schema, info;
};

struct RecordedRequest {
  record_layout::RequestHead head{};
  Batch batch;                    // its arrays are as long as the head says; else unchecked
  const float* scores = nullptr;  // [rows, heads]
  int64_t number = 0;             // in the file, from 0
  uint64_t at = 0;                // of its frame in the file
};

class RecordReader {
 public:
  static Result<std::unique_ptr<RecordReader>> open(std::unique_ptr<ByteSource> source, std::string name);

  /// Reads on to the next request, which stays until the next call. False: there is none.
  Result<bool> next();
  const RecordedRequest& request() const { return request_; }
  const std::vector<RecordedBundle>& bundles() const { return bundles_; }
  /// "FILE: request 3 at byte 1234"
  std::string place() const;

  uint64_t bytes() const { return source_->size(); }
  uint64_t bytes_read() const { return at_; }
  /// After the last request: its writer ended the file. Else it was cut, killed or is still writing.
  bool is_ended() const { return ended_; }
  /// Bytes behind the last whole frame.
  uint64_t left_over() const { return source_->size() - at_; }
  int64_t began_ms() const { return began_ms_; }

 private:
  RecordReader(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}
  Status read(uint64_t at, void* to, size_t n);
  Status read_head();
  Result<bool> read_frame(record_layout::FrameHead* head);
  Status read_bundle();
  Status read_request(uint64_t frame);
  Status read_end();
  Status damaged(uint64_t at, const std::string& how) const;
  std::span<const std::byte> payload() const {
    return std::as_bytes(std::span(words_)).first(static_cast<size_t>(length_));
  }

  const std::unique_ptr<ByteSource> source_;
  const std::string name_;
  std::vector<uint64_t> words_;  // the payload: arrays of 64 bits lie in their places
  uint64_t length_ = 0;
  uint64_t at_ = 0;
  int64_t began_ms_ = 0;
  bool ended_ = false;
  int64_t requests_ = 0;
  std::vector<RecordedBundle> bundles_;
  RecordedRequest request_;
};

}  // namespace dpi
