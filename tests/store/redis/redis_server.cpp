#include "store/redis/redis_server.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "support/device.hpp"
#include "support/sleep.hpp"

namespace dpi::test {
namespace {

// Of the search path; "" if there is none.
std::string program() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/redis-server";
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) == 0);
  ::close(fd);
  return ntohs(a.sin_port);
}

std::string text_of(const redisReply* r) {
  if (r == nullptr) return "no answer";
  if (r->type == REDIS_REPLY_INTEGER) return std::to_string(r->integer);
  if (r->type == REDIS_REPLY_NIL) return "";
  if (r->type != REDIS_REPLY_ARRAY) return {r->str, r->len};
  std::string all;
  for (size_t i = 0; i < r->elements; ++i) all += (i > 0 ? " " : "") + text_of(r->element[i]);
  return all;
}

void wait_for(const RedisServer& server, std::initializer_list<std::string> command,
              const std::string& text) {
  bool there = false;
  for (int t = 0; t < 400 && !there; ++t) {
    there = server.ask(command).find(text) != std::string::npos;
    if (!there) sleep_ms(50);
  }
  REQUIRE_MESSAGE(there, text);
}

// "name:calls=12,..." -> 12
int64_t number_after(const std::string& info, const std::string& name) {
  const size_t at = info.find(name);
  return at == info.npos ? 0 : std::atoll(info.c_str() + at + name.size());
}

}  // namespace

bool redis_installed() {
  if (!program().empty()) return true;
  skip_program("redis-server is not installed (packaging/setup.sh test)");
  return false;
}

RedisServer::RedisServer(bool cluster, std::vector<std::string> arguments)
    : cluster_(cluster),
      arguments_(std::move(arguments)),
      tls_(std::find(arguments_.begin(), arguments_.end(), "--tls-cert-file") != arguments_.end()) {
  folder_ = (std::filesystem::temp_directory_path() / "dpi_redis_XXXXXX").string();
  REQUIRE(::mkdtemp(folder_.data()) != nullptr);
  for (int i = 0; i < 5 && pid_ < 0; ++i) {
    port_ = free_port();
    bus_port_ = free_port();
    tls_port_ = free_port();
    if (!launch()) kill();
  }
  REQUIRE(pid_ > 0);
}

RedisServer::~RedisServer() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::start() { REQUIRE(launch()); }

bool RedisServer::launch() {
  std::vector<std::string> words = {program(),
                                    "--port",
                                    std::to_string(port_),
                                    "--bind",
                                    "127.0.0.1",
                                    "--save",
                                    "",
                                    "--appendonly",
                                    "no",
                                    "--dir",
                                    folder_,
                                    "--logfile",
                                    folder_ + "/log",
                                    "--enable-debug-command",
                                    "yes"};
  if (cluster_) {
    for (const char* w : {"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port"})
      words.emplace_back(w);
    words.push_back(std::to_string(bus_port_));
  }
  if (tls_) {
    words.insert(words.end(), {"--tls-port", std::to_string(tls_port_)});
    if (cluster_) words.insert(words.end(), {"--tls-cluster", "yes"});
  }
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(STDIN_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  for (int i = 0; i < 500; ++i) {
    const std::string answer = ask({"PING"});
    if (answer == "PONG" || answer.starts_with("NOAUTH")) return true;
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) break;
    sleep_ms(10);
  }
  return false;
}

void RedisServer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void RedisServer::pause() { ::kill(pid_, SIGSTOP); }
void RedisServer::resume() { ::kill(pid_, SIGCONT); }

std::string RedisServer::ask(std::initializer_list<std::string> arguments) const {
  redisContext* c = redisConnectWithTimeout("127.0.0.1", port_, {2, 0});
  std::string text = "no connection";
  if (c != nullptr && c->err == 0) {
    redisSetTimeout(c, {5, 0});
    for (size_t i = 0; i + 1 < arguments_.size(); ++i) {
      if (arguments_[i] != "--requirepass") continue;
      freeReplyObject(redisCommand(c, "AUTH %s", arguments_[i + 1].c_str()));
    }
    std::vector<const char*> argv;
    std::vector<size_t> sizes;
    for (const std::string& a : arguments) {
      argv.push_back(a.data());
      sizes.push_back(a.size());
    }
    auto* r = static_cast<redisReply*>(
        redisCommandArgv(c, static_cast<int>(argv.size()), argv.data(), sizes.data()));
    text = text_of(r);
    if (r != nullptr) freeReplyObject(r);
  }
  if (c != nullptr) redisFree(c);
  return text;
}

int64_t RedisServer::errors(const std::string& kind) const {
  return number_after(ask({"INFO", "errorstats"}), "errorstat_" + kind + ":count=");
}

int64_t RedisServer::calls(const std::string& command) const {
  return number_after(ask({"INFO", "commandstats"}), "cmdstat_" + command + ":calls=");
}

RedisCluster::RedisCluster(int masters, int replicas_each, std::vector<std::string> arguments) {
  const int all = masters * (1 + replicas_each);
  for (int i = 0; i < all; ++i) servers_.push_back(std::make_unique<RedisServer>(true, arguments));
  for (int i = 0; i < masters; ++i) {
    const std::string first = std::to_string(16384 * i / masters),
                      last = std::to_string(16384 * (i + 1) / masters - 1);
    REQUIRE(servers_[i]->ask({"CLUSTER", "ADDSLOTSRANGE", first, last}) == "OK");
    REQUIRE(servers_[i]->ask({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)}) == "OK");
  }
  for (int i = 1; i < all; ++i) {
    REQUIRE(servers_[0]->ask({"CLUSTER", "MEET", "127.0.0.1", std::to_string(servers_[i]->peer_port()),
                              std::to_string(servers_[i]->bus_port())}) == "OK");
  }
  wait_until_ok();
  for (int i = masters; i < all; ++i) {
    const std::string id = servers_[(i - masters) % masters]->ask({"CLUSTER", "MYID"});
    std::string answer;
    for (int t = 0; t < 200 && answer != "OK"; ++t) {
      answer = servers_[i]->ask({"CLUSTER", "REPLICATE", id});
      if (answer != "OK") sleep_ms(50);
    }
    REQUIRE(answer == "OK");
  }
  for (int i = masters; i < all; ++i)
    wait_for(*servers_[i], {"INFO", "replication"}, "master_link_status:up");
  // Each has heard of every replica.
  for (const auto& s : servers_) {
    for (int i = masters; i < all; ++i)
      wait_for(*s, {"CLUSTER", "REPLICAS", servers_[(i - masters) % masters]->ask({"CLUSTER", "MYID"})},
               "slave");
  }
  wait_until_ok();
}

void RedisCluster::wait_until_ok() {
  const std::string everybody = "cluster_known_nodes:" + std::to_string(servers_.size());
  for (const auto& s : servers_) {
    bool ok = false;
    for (int t = 0; t < 400 && !ok; ++t) {
      const std::string info = s->ask({"CLUSTER", "INFO"});
      ok = info.find("cluster_state:ok") != info.npos && info.find(everybody) != info.npos;
      if (!ok) sleep_ms(50);
    }
    REQUIRE(ok);
  }
}

void RedisCluster::wait_until_replicas_are_told() {
  for (const auto& s : servers_) {
    for (const auto& other : servers_) wait_for(*s, {"CLUSTER", "SLOTS"}, std::to_string(other->port()));
  }
}

std::string RedisCluster::addresses() const {
  std::string all;
  for (const auto& s : servers_) all += (all.empty() ? "" : ",") + s->address();
  return all;
}

std::string RedisCluster::tls_addresses() const {
  std::string all;
  for (const auto& s : servers_) all += (all.empty() ? "" : ",") + s->tls_address();
  return all;
}

void RedisCluster::move_slot(int slot, RedisServer& from, RedisServer& to, void (*between)(void*),
                             void* context) {
  const std::string s = std::to_string(slot);
  const std::string from_id = from.ask({"CLUSTER", "MYID"}), to_id = to.ask({"CLUSTER", "MYID"});
  REQUIRE(to.ask({"CLUSTER", "SETSLOT", s, "IMPORTING", from_id}) == "OK");
  REQUIRE(from.ask({"CLUSTER", "SETSLOT", s, "MIGRATING", to_id}) == "OK");
  std::istringstream keys(from.ask({"CLUSTER", "GETKEYSINSLOT", s, "1000"}));
  for (std::string key; keys >> key;)
    REQUIRE(from.ask({"MIGRATE", "127.0.0.1", std::to_string(to.peer_port()), key, "0", "5000"}) == "OK");
  if (between != nullptr) between(context);
  // Whom it goes to first, then whom it leaves: else both could name the other for good.
  std::vector<RedisServer*> order = {&to, &from};
  for (const auto& server : servers_) order.push_back(server.get());
  for (const RedisServer* server : order) {
    const std::string answer = server->ask({"CLUSTER", "SETSLOT", s, "NODE", to_id});
    CHECK_MESSAGE((answer == "OK" || answer.find("only with masters") != answer.npos), answer);
  }
}

int64_t RedisCluster::errors(const std::string& kind) const {
  int64_t all = 0;
  for (const auto& s : servers_) all += s->errors(kind);
  return all;
}

}  // namespace dpi::test
