// TLS over a connection's socket, by OpenSSL: hiredis has TLS from 1.0 on only (Debian 12 has 0.14), and
// would write with write(), which raises SIGPIPE in the host's process. The server's certificate is always
// checked: its chain, its dates, and that it is for the host that was asked for.
#pragma once

#include <openssl/types.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "store/redis/settings.hpp"

struct bio_method_st;

namespace dpi::redis {

/// Certificates and rules that connections share. They are read once.
class TlsContext {
 public:
  /// The settings have tls on; kIo for a file that cannot be used.
  static Result<std::unique_ptr<TlsContext>> make(const Settings& settings);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsStream;
  TlsContext() = default;
  Status read_files(const Settings& settings);

  SSL_CTX* context_ = nullptr;
  bio_method_st* socket_ = nullptr;
};

/// The TLS of one connection. It does not own the socket.
class TlsStream {
 public:
  static Result<std::unique_ptr<TlsStream>> make(const TlsContext& context, int fd, const std::string& host);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  enum class Step : uint8_t { kDone, kAgain, kFailed };
  /// kAgain: call it again when poll says one of wanted().
  Step shake_hands();
  /// Like ::send and ::recv: -1 with errno EAGAIN when the socket must be waited for; with another errno
  /// failure() says why, also where the other end has closed.
  ssize_t send(const char* bytes, size_t n);
  ssize_t receive(char* bytes, size_t n);
  /// Received already, and not handed over yet: poll does not tell of it.
  bool holds_bytes() const;
  /// Nothing to receive, and not closed by the other end.
  bool quiet();
  /// POLLIN or POLLOUT, by what the last step lacked.
  short wanted() const { return wanted_; }
  /// The other end has sent something.
  bool heard() const { return heard_; }
  const Status& failure() const { return failure_; }

 private:
  friend class TlsContext;
  explicit TlsStream(std::string host) : host_(std::move(host)) {}
  ssize_t settle(int result);
  Status why(int error, int saved) const;
  std::string why_refused(long verdict) const;
  static int note_verdict(int ok, X509_STORE_CTX* chain);
  static int socket_write(BIO* bio, const char* bytes, int n);
  static int socket_read(BIO* bio, char* bytes, int n);

  const std::string host_;
  SSL* ssl_ = nullptr;
  int fd_ = -1;
  short wanted_ = 0;
  bool heard_ = false, answered_ = false;  // bytes of TLS; of an answer
  std::string blamed_, refused_;           // a certificate that was refused: whose, and what it says
  Status failure_;
};

}  // namespace dpi::redis
