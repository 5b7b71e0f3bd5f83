// One partition of one topic, read in order through librdkafka. Assigned by hand, so no group is joined and
// nobody takes the partition away; the group has the offset alone.
//
// One thread calls everything but wake() and read_state(). Callbacks of librdkafka run inside next().
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/status.hpp"
#include "runtime/stream/abi/dpi_stream.h"

namespace dpi::kafka {

class Consumer {
 public:
  static Result<std::unique_ptr<Consumer>> open(const dpi_stream_options& options);
  /// Waits for no broker.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  Status next(int32_t timeout_ms, dpi_stream_message* out);
  void wake();
  Status rewind();
  void commit(int64_t offset);
  void read_state(dpi_stream_state* out);

 private:
  struct FreeMessage {
    void operator()(rd_kafka_message_t* m) const { rd_kafka_message_destroy(m); }
  };
  explicit Consumer(const dpi_stream_options& options);

  static void on_error(rd_kafka_t*, int code, const char* reason, void* self);
  static void on_commit(rd_kafka_t*, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t*, void* self);
  static void on_log(const rd_kafka_t*, int level, const char* facility, const char* text);

  Status start(const dpi_stream_options& options);
  Status assign(int64_t offset);
  void hand_out(const rd_kafka_message_t& m, dpi_stream_message* out) const;
  void send_commit();
  void look_again();
  void note_error(rd_kafka_resp_err_t code, const char* text);
  void note_well();

  const std::string topic_;
  const int32_t partition_;
  const int64_t max_bytes_;
  void (*const log_)(void*, int32_t, const char*);
  void* const log_sink_;
  rd_kafka_t* client_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  std::unique_ptr<rd_kafka_message_t, FreeMessage> message_;  // that was handed out last

  int64_t wanted_ = -1;      // offset to be committed
  bool committing_ = false;  // asked, not answered yet
  uint64_t commit_again_ns_ = 0, look_again_ns_ = 0;

  std::mutex mutex_;  // of state_, for moments
  dpi_stream_state state_{};
};

}  // namespace dpi::kafka
