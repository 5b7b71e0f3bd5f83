#include "store/redis/certificates.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace dpi::test {
namespace {

const char kScript[] = R"(
set -e
new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
for name in ca stranger; do
  openssl req -x509 $new -keyout $name.key -out $name.pem -subj /CN=$name -days 2 -addext keyUsage=critical,keyCertSign
done
serial=1
issue() {
  serial=$((serial + 1))
  openssl req $new -keyout $1.key -out $1.csr -subj /CN=$1
  printf 'subjectAltName=%s\n' "$2" >$1.ext
  openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -set_serial $serial -days $3 -extfile $1.ext -out $1.pem
}
issue server IP:127.0.0.1,DNS:localhost 2
issue elsewhere DNS:other.example,IP:127.0.0.9 2
issue short_address DER:30:03:87:01:7f 2
issue expired IP:127.0.0.1 -1
issue client DNS:client.example 2
openssl ec -in client.key -aes128 -passout pass:of-the-key -out client_locked.key
)";

}  // namespace

Certificates::Certificates()
    : folder_((std::filesystem::temp_directory_path() / "dpi_certificates_XXXXXX").string()) {
  REQUIRE(::mkdtemp(folder_.data()) != nullptr);
  const std::string script = "{ cd '" + folder_ + "' && " + kScript + "} >'" + folder_ + "/log' 2>&1";
  REQUIRE_MESSAGE(std::system(script.c_str()) == 0, "openssl made no certificates: packaging/setup.sh test");
}

Certificates::~Certificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> Certificates::arguments(const std::string& server, bool clients) const {
  return {"--tls-cert-file",    (*this)(server + ".pem"), "--tls-key-file",     (*this)(server + ".key"),
          "--tls-ca-cert-file", (*this)("ca.pem"),        "--tls-auth-clients", clients ? "yes" : "no"};
}

}  // namespace dpi::test
