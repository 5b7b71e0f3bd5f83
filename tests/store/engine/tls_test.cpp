// A model whose external rows come over TLS, by its options, and the program that brings them there.
#include <array>
#include <cstdio>
#include <string>

#include "store/engine/fixture.hpp"
#include "store/redis/certificates.hpp"

namespace dpi::test::tls_test {
namespace {

struct Ran {
  int status = 0;
  std::string output;
};

Ran run(const std::string& command) {
  Ran r;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> block{};
  while (std::fgets(block.data(), block.size(), pipe) != nullptr) r.output += block.data();
  r.status = WEXITSTATUS(::pclose(pipe));
  return r;
}

}  // namespace

TEST_CASE("options for TLS and a user: right scores; what is refused is DPI_E_IO, and no secret is shown") {
  if (!have_models() || !redis_installed()) return;
  const Certificates certificates;
  auto arguments = certificates.arguments("server", true);
  arguments.insert(arguments.end(), {"--user", "reader", "on", ">of-reader", "~dpi1:*", "+@all"});
  const RedisServer server(false, arguments);
  const Pairs secure = {{"store.redis_address", server.tls_address("localhost")},
                        {"store.redis_user", "reader"},
                        {"store.redis_password", "of-reader"},
                        {"store.redis_tls", "on"},
                        {"store.redis_tls_ca", certificates("ca.pem")},
                        {"store.redis_tls_cert", certificates("client.pem")},
                        {"store.redis_tls_key", certificates("client.key")}};
  const auto with = [&](const std::string& key, const std::string& value) {
    Pairs p = secure;
    for (auto& [k, v] : p) {
      if (k == key) v = value;
    }
    return p;
  };
  fill_store("redis", {{"address", server.tls_address()},
                       {"user", "reader"},
                       {"password", "of-reader"},
                       {"tls", "on"},
                       {"tls_ca", certificates("ca.pem")},
                       {"tls_cert", certificates("client.pem")},
                       {"tls_key", certificates("client.key")}});
  const ModelPtr m = load_model(external(), tiered("200000", secure));
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    const Request request(random_rows(20, random));
    const Scored s = score(m.get(), request);
    CHECK_MESSAGE(s.code == DPI_OK, s.message);
    CHECK(identical(s.out, right_scores(request)));
  }
  std::string info(dpi_model_info_json(m.get(), nullptr, 0), '\0');
  dpi_model_info_json(m.get(), info.data(), info.size());
  CHECK(info.find("of-reader") == std::string::npos);
  CHECK(info.find("PRIVATE KEY") == std::string::npos);
  CHECK_MESSAGE(info.find(certificates("client.key")) != std::string::npos, info);

  const auto refused = [&](const Pairs& options, const std::string& text) {
    const Loaded l = try_load(external(), tiered("200000", options));
    CHECK_MESSAGE(l.code == DPI_E_IO, l.message);
    CHECK_MESSAGE(l.message.find(text) != std::string::npos, l.message);
    CHECK_MESSAGE(l.message.find("of-reader") == std::string::npos, l.message);
  };
  refused(with("store.redis_tls_ca", certificates("stranger.pem")), "'tls_ca' must name the CA");
  const RedisServer elsewhere(false, certificates.arguments("elsewhere"));
  refused(with("store.redis_address", elsewhere.tls_address()), "not for 127.0.0.1");
  refused(with("store.redis_address", server.address()), "does not speak TLS");
  refused(with("store.redis_tls_cert", certificates("none.pem")), "No such file");
  refused({secure[0], secure[1], secure[2]}, "set 'tls' on");
  refused({secure[0], secure[1], secure[2], secure[3], secure[4]}, "'tls_cert' and 'tls_key'");
}

TEST_CASE("dpi store load, stat and drop take the same as settings") {
  if (!have_models() || !redis_installed()) return;
  const Certificates certificates;
  const RedisServer server(false, certificates.arguments("server"));
  const std::string at = " '" + whole() + "' --redis " + server.tls_address() + " --backend-dir '" +
                         DPI_TEST_STORE_PLUGINS + "' --setting tls=on";
  const std::string program = std::string("'") + DPI_TEST_PROGRAM + "' store ";
  const std::string ca = " --setting tls_ca='" + certificates("ca.pem") + "'";
  for (const char* command : {"load", "stat", "drop"}) {
    const Ran refused = run(program + command + at);
    CHECK(refused.status != 0);
    CHECK_MESSAGE(refused.output.find("is not trusted") != std::string::npos, refused.output);
  }
  for (const char* command : {"load", "stat", "drop"}) {
    const Ran ran = run(program + command + at + ca);
    CHECK_MESSAGE(ran.status == 0, ran.output);
  }
  CHECK(server.ask({"DBSIZE"}) == "0");
}

}  // namespace dpi::test::tls_test
