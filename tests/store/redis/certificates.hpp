// Certificates for servers and clients of one test, made by openssl in a folder that is removed.
#pragma once

#include <string>
#include <vector>

namespace dpi::test {

/// "ca" has signed "server" (127.0.0.1 and localhost), "elsewhere" (other.example and 127.0.0.9), "expired"
/// and "client"; "stranger" is another CA. Each NAME is NAME.pem with NAME.key; client_locked.key has a
/// passphrase.
class Certificates {
 public:
  Certificates();
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  std::string operator()(const std::string& file) const { return folder_ + "/" + file; }
  /// What redis-server is started with; clients: whether it wants certificates of them.
  std::vector<std::string> arguments(const std::string& server, bool clients = false) const;

 private:
  std::string folder_;
};

}  // namespace dpi::test
