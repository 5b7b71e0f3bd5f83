// Brokers inside the test's process: librdkafka's mock cluster, and a producer.
#pragma once

#include <doctest/doctest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <string>
#include <utility>
#include <vector>

namespace dpi::test {

constexpr const char* kTopic = "deltas";

class MockKafka {
 public:
  explicit MockKafka(int brokers = 1) : n_(brokers) {
    client_ = make(RD_KAFKA_PRODUCER, {{"client.id", "mock"}});
    cluster_ = rd_kafka_mock_cluster_new(client_, brokers);
    REQUIRE(cluster_ != nullptr);
    REQUIRE(rd_kafka_mock_topic_create(cluster_, kTopic, 2, 1) == RD_KAFKA_RESP_ERR_NO_ERROR);
    producer_ = make(RD_KAFKA_PRODUCER, {{"bootstrap.servers", address()},
                                         {"message.max.bytes", "100000000"},
                                         {"reconnect.backoff.max.ms", "500"},
                                         {"linger.ms", "0"}});
  }
  ~MockKafka() {
    rd_kafka_destroy(producer_);
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(client_);
  }
  MockKafka(const MockKafka&) = delete;
  MockKafka& operator=(const MockKafka&) = delete;

  std::string address() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

  /// Returns when a broker has it. part: value of the header dpi-part.
  void send(const std::string& bytes, const std::string& part = {}, int64_t timestamp_ms = 0) {
    rd_kafka_headers_t* headers = rd_kafka_headers_new(1);
    if (!part.empty())
      rd_kafka_header_add(headers, "dpi-part", -1, part.data(), static_cast<ssize_t>(part.size()));
    const rd_kafka_resp_err_t code =
        rd_kafka_producev(producer_, RD_KAFKA_V_TOPIC(kTopic), RD_KAFKA_V_PARTITION(0),
                          RD_KAFKA_V_VALUE(const_cast<char*>(bytes.data()), bytes.size()),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_TIMESTAMP(timestamp_ms),
                          RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
    REQUIRE(code == RD_KAFKA_RESP_ERR_NO_ERROR);
    REQUIRE(rd_kafka_flush(producer_, 20000) == RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  void down() {
    for (int i = 1; i <= n_; ++i) rd_kafka_mock_broker_set_down(cluster_, i);
  }
  void up() {
    for (int i = 1; i <= n_; ++i) rd_kafka_mock_broker_set_up(cluster_, i);
  }
  /// What the brokers keep for a group, as another client is told; -1 = nothing.
  int64_t committed(const std::string& group) const {
    rd_kafka_t* other = make(RD_KAFKA_CONSUMER, {{"bootstrap.servers", address()}, {"group.id", group}});
    rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, kTopic, 0);
    const bool well = rd_kafka_committed(other, list, 10000) == RD_KAFKA_RESP_ERR_NO_ERROR;
    const int64_t at = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(other);
    REQUIRE(well);
    return at >= 0 ? at : -1;
  }

 private:
  static rd_kafka_t* make(rd_kafka_type_t type,
                          const std::vector<std::pair<std::string, std::string>>& settings) {
    char why[256] = "";
    rd_kafka_conf_t* c = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(c, [](const rd_kafka_t*, int, const char*, const char*) {});
    for (const auto& [key, value] : settings)
      REQUIRE_MESSAGE(rd_kafka_conf_set(c, key.c_str(), value.c_str(), why, sizeof why) == RD_KAFKA_CONF_OK,
                      why);
    rd_kafka_t* made = rd_kafka_new(type, c, why, sizeof why);
    REQUIRE_MESSAGE(made != nullptr, why);
    return made;
  }

  const int n_;
  rd_kafka_t* client_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
  rd_kafka_t* producer_ = nullptr;
};

}  // namespace dpi::test
