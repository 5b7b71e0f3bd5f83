#include "runtime/stream/kafka/consumer.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "runtime/stream/kafka/configuration.hpp"

namespace dpi::kafka {

namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kCommitAgainNs = 1000 * kNsPerMs, kLookAgainNs = 2000 * kNsPerMs;
constexpr int kLookMs = 500;
constexpr const char* kPartHeader = "dpi-part";  // "2/3": the second of three

struct FreeList {
  void operator()(rd_kafka_topic_partition_list_t* l) const { rd_kafka_topic_partition_list_destroy(l); }
};

std::unique_ptr<rd_kafka_topic_partition_list_t, FreeList> one(const std::string& topic, int32_t partition,
                                                               int64_t offset) {
  std::unique_ptr<rd_kafka_topic_partition_list_t, FreeList> list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition)->offset = offset;
  return list;
}

Code code_of(rd_kafka_resp_err_t code) {
  switch (code) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return Code::kNotFound;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__SSL:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
      return Code::kInvalidArgument;
    default:
      return Code::kIo;
  }
}

/// Parses "2/3" as part 1 of 3, counted from 0. Anything else gives 0 of 0, which no delta is.
void read_part(std::string_view text, dpi_stream_message* out) {
  int32_t part = 0, parts = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, part);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = slash ? std::from_chars(first.ptr + 1, end, parts) : first;
  const bool well = slash && second.ec == std::errc() && second.ptr == end && part >= 1 && part <= parts;
  out->part = well ? part - 1 : 0;
  out->parts = well ? parts : 0;
}

}  // namespace

Consumer::Consumer(const dpi_stream_options& options)
    : topic_(options.topic),
      partition_(options.partition),
      max_bytes_(options.max_bytes),
      log_(options.log),
      log_sink_(options.log_sink) {
  state_.end = state_.committed = -1;
}

Result<std::unique_ptr<Consumer>> Consumer::open(const dpi_stream_options& options) {
  std::unique_ptr<Consumer> made(new Consumer(options));
  DPI_RETURN_IF_ERROR(made->start(options));
  return made;
}

Status Consumer::start(const dpi_stream_options& options) {
  DPI_ASSIGN_OR_RETURN(auto configuration, configure(options));
  rd_kafka_conf_set_opaque(configuration.get(), this);
  rd_kafka_conf_set_error_cb(configuration.get(), on_error);
  rd_kafka_conf_set_offset_commit_cb(configuration.get(), on_commit);
  rd_kafka_conf_set_log_cb(configuration.get(), on_log);
  char why[256] = "";
  client_ = rd_kafka_new(RD_KAFKA_CONSUMER, configuration.get(), why, sizeof why);
  if (client_ == nullptr) return invalid_argument(std::string("librdkafka: ") + why);
  configuration.release();  // the client has it now
  rd_kafka_set_log_queue(client_, nullptr);
  rd_kafka_poll_set_consumer(client_);
  queue_ = rd_kafka_queue_get_consumer(client_);
  return assign(RD_KAFKA_OFFSET_STORED);
}

Consumer::~Consumer() {
  message_.reset();
  if (queue_ != nullptr) rd_kafka_queue_destroy(queue_);
  if (client_ != nullptr) rd_kafka_destroy_flags(client_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

Status Consumer::assign(int64_t offset) {
  const auto list = one(topic_, partition_, offset);
  const rd_kafka_resp_err_t code = rd_kafka_assign(client_, list.get());
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  return Status(Code::kIo, topic_ + ": " + rd_kafka_err2str(code)).native(code);
}

Status Consumer::rewind() {
  message_.reset();
  return assign(RD_KAFKA_OFFSET_BEGINNING);
}

Status Consumer::next(int32_t timeout_ms, dpi_stream_message* out) {
  *out = {};
  message_.reset();
  send_commit();
  look_again();
  message_.reset(rd_kafka_consumer_poll(client_, timeout_ms));
  if (message_ == nullptr) return {};
  if (message_->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    note_well();
    hand_out(*message_, out);
  } else if (message_->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    note_well();
    out->kind = DPI_STREAM_END;
    out->offset = message_->offset;
  } else {
    note_error(message_->err, rd_kafka_message_errstr(message_.get()));
  }
  return {};
}

void Consumer::hand_out(const rd_kafka_message_t& m, dpi_stream_message* out) const {
  out->kind = DPI_STREAM_MESSAGE;
  out->part = 0;
  out->parts = 1;
  out->bytes = static_cast<int64_t>(m.len);
  if (out->bytes <= max_bytes_) out->data = static_cast<const unsigned char*>(m.payload);
  out->offset = m.offset;
  rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
  out->timestamp_ms = rd_kafka_message_timestamp(&m, &type);
  if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) out->timestamp_ms = -1;
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  size_t bytes = 0;
  if (rd_kafka_message_headers(&m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR &&
      rd_kafka_header_get_last(headers, kPartHeader, &value, &bytes) == RD_KAFKA_RESP_ERR_NO_ERROR)
    read_part({static_cast<const char*>(value), bytes}, out);
}

void Consumer::wake() { rd_kafka_queue_yield(queue_); }

void Consumer::commit(int64_t offset) {
  wanted_ = offset;
  commit_again_ns_ = 0;
  send_commit();
}

void Consumer::send_commit() {
  if (wanted_ < 0 || committing_ || monotonic_ns() < commit_again_ns_) return;
  const auto list = one(topic_, partition_, wanted_);
  committing_ = rd_kafka_commit(client_, list.get(), 1) == RD_KAFKA_RESP_ERR_NO_ERROR;
  if (!committing_) commit_again_ns_ = monotonic_ns() + kCommitAgainNs;
}

void Consumer::on_commit(rd_kafka_t*, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t* list,
                         void* self) {
  auto& c = *static_cast<Consumer*>(self);
  c.committing_ = false;
  if (list != nullptr && list->cnt > 0 && code == RD_KAFKA_RESP_ERR_NO_ERROR) code = list->elems[0].err;
  if (list == nullptr || list->cnt == 0 || code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    c.commit_again_ns_ = monotonic_ns() + kCommitAgainNs;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
      c.note_error(code, (std::string("commit: ") + rd_kafka_err2str(code)).c_str());
    return;
  }
  c.note_well();
  const int64_t at = list->elems[0].offset;
  if (at == c.wanted_) c.wanted_ = -1;  // else another one came meanwhile
  const std::lock_guard<std::mutex> lock(c.mutex_);
  c.state_.committed = at;
}

/// When something was wrong and no message comes, nothing tells that it is well again: so it is asked for.
void Consumer::look_again() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (state_.code == 0) return;
  }
  if (monotonic_ns() < look_again_ns_) return;
  int64_t low = 0, high = 0;
  if (rd_kafka_query_watermark_offsets(client_, topic_.c_str(), partition_, &low, &high, kLookMs) ==
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    note_well();
    const std::lock_guard<std::mutex> lock(mutex_);
    state_.end = high;
  }
  look_again_ns_ = monotonic_ns() + kLookAgainNs;
}

void Consumer::note_error(rd_kafka_resp_err_t code, const char* text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.code = static_cast<int32_t>(code_of(code));
  state_.error.native_code = code;
  copy_printable(text, state_.error.message, sizeof state_.error.message);
}

void Consumer::note_well() {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.code = 0;
  state_.error = {};
}

void Consumer::on_error(rd_kafka_t*, int code, const char* reason, void* self) {
  static_cast<Consumer*>(self)->note_error(static_cast<rd_kafka_resp_err_t>(code), reason);
}

void Consumer::on_log(const rd_kafka_t* client, int level, const char* facility, const char* text) {
  constexpr int kWarning = 4, kInfo = 6;  // of syslog
  const auto* c = static_cast<const Consumer*>(rd_kafka_opaque(client));
  if (c == nullptr || c->log_ == nullptr) return;
  const int32_t to = level <= kWarning ? 2 : level <= kInfo ? 1 : 0;
  c->log_(c->log_sink_, to, (std::string(facility) + ": " + text).c_str());
}

void Consumer::read_state(dpi_stream_state* out) {
  int64_t low = 0, high = 0;
  const bool known = rd_kafka_get_watermark_offsets(client_, topic_.c_str(), partition_, &low, &high) ==
                     RD_KAFKA_RESP_ERR_NO_ERROR;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known && high >= 0) state_.end = std::max(state_.end, high);
  *out = state_;
}

}  // namespace dpi::kafka
