#include "store/redis/tls.hpp"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace dpi::redis {
namespace {

constexpr int kMostNames = 8;

bool is_address(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 || ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

/// The first text that OpenSSL has about a failure, and none of it afterwards.
std::string openssl_text() {
  const unsigned long error = ERR_get_error();
  const char* text = ERR_reason_error_string(error);
  ERR_clear_error();
  return text != nullptr ? text : "unknown reason";
}

Status bad_file(const char* setting, const std::string& path, const std::string& cure) {
  const unsigned long error = ERR_peek_error();
  if (ERR_GET_LIB(error) == ERR_LIB_SYS) {
    const int number = ERR_GET_REASON(error);
    ERR_clear_error();
    return Status(Code::kIo, std::string("redis: setting '") + setting + "': cannot read " + in_quotes(path) +
                                 ": " + errno_text(number))
        .native(number);
  }
  return Status(Code::kIo, std::string("redis: setting '") + setting + "': " + in_quotes(path) + ": " +
                               openssl_text() + "; " + cure);
}

/// "cache.example, 10.0.0.1": whom a certificate is for.
std::string names_of(X509* certificate) {
  std::string text;
  auto* names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < std::min(sk_GENERAL_NAME_num(names), kMostNames); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const ASN1_STRING* value = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const unsigned char* bytes = ASN1_STRING_get0_data(value);
    const int size = ASN1_STRING_length(value);
    if (name->type == GEN_IPADD && size != 4 && size != 16) continue;  // of a forged one, say: no address
    std::string one(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    char address[INET6_ADDRSTRLEN] = "?";
    if (name->type == GEN_IPADD)
      one = ::inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, address, sizeof address);
    text += (text.empty() ? "" : ", ") + printable(one);
  }
  GENERAL_NAMES_free(names);
  return text.empty() ? "no host" : text;
}

std::string subject_of(X509* certificate) {
  char text[256] = "";
  X509_NAME_oneline(X509_get_subject_name(certificate), text, sizeof text);
  return printable(text);
}

std::string time_text(const ASN1_TIME* time) {
  tm t{};
  char text[32] = "?";
  if (ASN1_TIME_to_tm(time, &t) == 1) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &t);
  return text;
}

/// No key is asked for at the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

bool means_no_tls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

/// Alerts by which a server refuses a client's certificate, or the lack of one.
bool means_refused(int reason) {
  return reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED || reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
         reason == SSL_R_TLSV1_ALERT_ACCESS_DENIED || reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
         reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
         reason == SSL_R_SSLV3_ALERT_NO_CERTIFICATE || reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE ||
         reason == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED || reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
         reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN;
}

}  // namespace

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
  BIO_meth_free(socket_);
}

Result<std::unique_ptr<TlsContext>> TlsContext::make(const Settings& settings) {
  ERR_clear_error();
  std::unique_ptr<TlsContext> c(new TlsContext);
  c->context_ = SSL_CTX_new(TLS_client_method());
  static const int type = BIO_get_new_index();  // a process has 127 of them
  c->socket_ = BIO_meth_new(type | BIO_TYPE_SOURCE_SINK, "dpi-redis");
  if (c->context_ == nullptr || c->socket_ == nullptr)
    return Status(Code::kOutOfMemory, "redis: TLS cannot be set up: " + openssl_text());
  BIO_meth_set_write(c->socket_, TlsStream::socket_write);
  BIO_meth_set_read(c->socket_, TlsStream::socket_read);
  BIO_meth_set_ctrl(c->socket_, [](BIO*, int what, long, void*) -> long { return what == BIO_CTRL_FLUSH; });
  BIO_meth_set_create(c->socket_, [](BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  });
  SSL_CTX* const context = c->context_;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, TlsStream::note_verdict);
  DPI_RETURN_IF_ERROR(c->read_files(settings));
  return c;
}

Status TlsContext::read_files(const Settings& s) {
  if (s.tls_ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context_) != 1)
      return Status(Code::kIo, "redis: the system's certificates cannot be read: " + openssl_text() +
                                   "; name the CA by setting 'tls_ca'");
  } else if (SSL_CTX_load_verify_file(context_, s.tls_ca.c_str()) != 1) {
    return bad_file("tls_ca", s.tls_ca, "expected certificates of CAs as PEM");
  }
  if (s.tls_cert.empty()) return {};
  if (SSL_CTX_use_certificate_chain_file(context_, s.tls_cert.c_str()) != 1)
    return bad_file("tls_cert", s.tls_cert, "expected the client's certificate as PEM, with its chain");
  if (SSL_CTX_use_PrivateKey_file(context_, s.tls_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context_) != 1)
    return bad_file("tls_key", s.tls_key,
                    "expected the private key of 'tls_cert' as PEM, without a passphrase");
  return {};
}

Result<std::unique_ptr<TlsStream>> TlsStream::make(const TlsContext& context, int fd,
                                                   const std::string& host) {
  ERR_clear_error();
  std::unique_ptr<TlsStream> s(new TlsStream(host));
  s->fd_ = fd;
  s->ssl_ = SSL_new(context.context_);
  BIO* const bio = s->ssl_ != nullptr ? BIO_new(context.socket_) : nullptr;
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, s.get());
  SSL_set_bio(s->ssl_, bio, bio);
  SSL_set_app_data(s->ssl_, s.get());
  X509_VERIFY_PARAM* const rules = SSL_get0_param(s->ssl_);
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool numbers = is_address(host);
  const bool set = numbers ? X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1
                           : X509_VERIFY_PARAM_set1_host(rules, host.data(), host.size()) == 1 &&
                                 SSL_ctrl(s->ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                          const_cast<char*>(host.c_str())) == 1;
  if (!set) return Status(Code::kIo, "TLS: " + in_quotes(host) + " cannot be the name in a certificate");
  SSL_set_connect_state(s->ssl_);
  return s;
}

TlsStream::~TlsStream() {
  // Says goodbye where that needs no waiting.
  if (ssl_ != nullptr && failure_.ok() && SSL_is_init_finished(ssl_) == 1) SSL_shutdown(ssl_);
  SSL_free(ssl_);
  ERR_clear_error();
}

int TlsStream::socket_write(BIO* bio, const char* bytes, int n) {
  const auto* self = static_cast<const TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  ssize_t sent = 0;
  do {
    sent = ::send(self->fd_, bytes, static_cast<size_t>(n), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int TlsStream::socket_read(BIO* bio, char* bytes, int n) {
  auto* self = static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  ssize_t got = 0;
  do {
    got = ::recv(self->fd_, bytes, static_cast<size_t>(n), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
  if (got > 0) self->heard_ = true;
  return static_cast<int>(got);
}

// Called for each certificate of the server's chain, with the first thing that is wrong with it. Runs below C
// code: nothing may be thrown through it.
int TlsStream::note_verdict(int ok, X509_STORE_CTX* chain) {
  if (ok == 1) return 1;
  const auto* ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* self = static_cast<TlsStream*>(SSL_get_app_data(ssl));
  X509* const certificate = X509_STORE_CTX_get_current_cert(chain);
  if (certificate == nullptr) return 0;
  try {
    const int error = X509_STORE_CTX_get_error(chain);
    const bool own = X509_STORE_CTX_get_error_depth(chain) == 0;
    self->blamed_ = subject_of(certificate);
    self->refused_ = std::string(own ? "the server's" : "a CA's") + " certificate (" + self->blamed_ + ")";
    if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)
      self->refused_ += " is for " + names_of(certificate) + ", not for " + printable(self->host_);
    if (error == X509_V_ERR_CERT_HAS_EXPIRED)
      self->refused_ += " expired on " + time_text(X509_get0_notAfter(certificate));
    if (error == X509_V_ERR_CERT_NOT_YET_VALID)
      self->refused_ += " is valid from " + time_text(X509_get0_notBefore(certificate));
  } catch (const std::bad_alloc&) {
    self->refused_.clear();
  }
  return 0;
}

std::string TlsStream::why_refused(long verdict) const {
  const std::string which = refused_.empty() ? "the server's certificate" : refused_;
  switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return which + "; use a name that it has in the address, or have it issued for this one";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return which + "; renew it";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return which + "; check this machine's clock";
    default:
      return std::string("the server's certificate is not trusted: ") +
             X509_verify_cert_error_string(verdict) + (blamed_.empty() ? "" : " (" + blamed_ + ")") +
             "; setting 'tls_ca' must name the CA that signed it";
  }
}

// `error` by SSL_get_error, `saved` the errno then.
Status TlsStream::why(int error, int saved) const {
  const long verdict = SSL_get_verify_result(ssl_);
  if (verdict != X509_V_OK) return Status(Code::kIo, "TLS: " + why_refused(verdict));
  const bool shaking = SSL_is_init_finished(ssl_) == 0;
  // The alert that says so may be lost when the server closes behind it.
  const std::string cure =
      shaking || answered_ || SSL_get_certificate(ssl_) != nullptr
          ? ""
          : "; if the server wants a certificate of its clients, settings 'tls_cert' and "
            "'tls_key' name one";
  if (error == SSL_ERROR_SYSCALL && saved != 0)
    return Status(Code::kIo, "the connection broke: " + errno_text(saved) + cure).native(saved);
  if (error == SSL_ERROR_SYSCALL || error == SSL_ERROR_ZERO_RETURN)
    return Status(Code::kIo, shaking ? "the server closed the connection in the TLS handshake; does it speak "
                                       "TLS on this port? If not, set 'tls' off"
                                     : "the server closed the connection" + cure);
  const unsigned long first = ERR_peek_error();
  const int reason = ERR_GET_REASON(first);
  if (ERR_GET_LIB(first) == ERR_LIB_SSL && shaking && means_no_tls(reason))
    return Status(Code::kIo,
                  "the server does not speak TLS on this port; set 'tls' off, or give its TLS port");
  if (ERR_GET_LIB(first) == ERR_LIB_SSL && reason == SSL_R_UNEXPECTED_EOF_WHILE_READING && !shaking)
    return Status(Code::kIo, "the server closed the connection" + cure);
  if (ERR_GET_LIB(first) == ERR_LIB_SSL && means_refused(reason))
    return Status(Code::kIo,
                  std::string("TLS: the server refuses us: ") + ERR_reason_error_string(first) +
                      "; settings 'tls_cert' and 'tls_key' must name a certificate that it trusts");
  return Status(Code::kIo, "TLS: " + openssl_text());
}

ssize_t TlsStream::settle(int result) {
  const int saved = errno;
  wanted_ = 0;
  if (result > 0) return result;
  const int error = SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    wanted_ = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    errno = EAGAIN;
    return -1;
  }
  if (failure_.ok()) failure_ = why(error, saved);
  ERR_clear_error();
  errno = EPROTO;
  return -1;
}

TlsStream::Step TlsStream::shake_hands() {
  ERR_clear_error();
  errno = 0;
  if (settle(SSL_do_handshake(ssl_)) > 0) return Step::kDone;
  return errno == EAGAIN ? Step::kAgain : Step::kFailed;
}

ssize_t TlsStream::send(const char* bytes, size_t n) {
  ERR_clear_error();
  errno = 0;
  return settle(SSL_write(ssl_, bytes, static_cast<int>(std::min<size_t>(n, 1 << 30))));
}

ssize_t TlsStream::receive(char* bytes, size_t n) {
  ERR_clear_error();
  errno = 0;
  const ssize_t got = settle(SSL_read(ssl_, bytes, static_cast<int>(std::min<size_t>(n, 1 << 30))));
  answered_ = answered_ || got > 0;
  return got;
}

bool TlsStream::holds_bytes() const { return SSL_pending(ssl_) > 0; }

// Tickets of TLS 1.3 may lie there: they are no bytes of an answer.
bool TlsStream::quiet() {
  char byte = 0;
  ERR_clear_error();
  errno = 0;
  return settle(SSL_peek(ssl_, &byte, 1)) < 0 && errno == EAGAIN;
}

}  // namespace dpi::redis
