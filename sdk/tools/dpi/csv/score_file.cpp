#include "sdk/tools/dpi/csv/score_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "sdk/tools/dpi/shared/command_error.hpp"

namespace dpi::tool {

namespace {

constexpr std::array<int, 3> kEnding = {SIGINT, SIGTERM, SIGHUP};

/// The path that a signal handler removes. Changed only while remove_and_end is not installed.
char g_temporary[PATH_MAX];

extern "C" void remove_and_end(int signal) {
  unlink(g_temporary);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Names what is to go when the program is ended from outside, "" = nothing. A signal that is ignored (nohup)
/// stays so.
void remove_when_ended(const std::string& path) {
  if (!path.empty()) g_temporary[path.copy(g_temporary, sizeof g_temporary - 1)] = '\0';
  for (const int s : kEnding) {
    struct sigaction now{};
    if (sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      std::signal(s, path.empty() ? SIG_DFL : remove_and_end);
  }
}

/// Keeps a signal waiting while a file is there that remove_when_ended does not know yet.
class EndingLater {
 public:
  EndingLater() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int s : kEnding) sigaddset(&ending, s);
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~EndingLater() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndingLater(const EndingLater&) = delete;
  EndingLater& operator=(const EndingLater&) = delete;

 private:
  sigset_t before_{};
};

/// The mode of an existing file, else the mode that fopen would give.
mode_t mode_of(const std::string& path) {
  struct stat s{};
  if (stat(path.c_str(), &s) == 0) return s.st_mode & 0777;
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

/// Where a path leads: links of its last part followed, also one to a file that is still to be made. "" and
/// errno when they go round.
std::string behind_links(std::string path) {
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t n = readlink(path.c_str(), target, sizeof target);
    if (n <= 0 || n == sizeof target) return path;
    const std::string to(target, static_cast<size_t>(n));
    const size_t folder = path.rfind('/');
    path = to.front() == '/' || folder == std::string::npos ? to : path.substr(0, folder + 1) + to;
  }
  errno = ELOOP;
  return "";
}

/// No file may be made in the folder, or none of a longer name.
bool only_in_place(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENAMETOOLONG;
}

}  // namespace

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat x{}, y{};
  return stat(a.c_str(), &x) == 0 && stat(b.c_str(), &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

ScoreFile::ScoreFile(const std::string& path, std::vector<std::string> heads) : heads_(std::move(heads)) {
  if (path.empty() || path == "-") return;
  path_ = path;
  struct stat s{};
  const bool exists = stat(path.c_str(), &s) == 0;
  if (exists && !S_ISREG(s.st_mode)) {
    file_ = std::fopen(path.c_str(), "wb");
    if (file_ == nullptr) fail();
    return;
  }
  if (exists && access(path.c_str(), W_OK) != 0) fail();
  if (std::string real = behind_links(path); !real.empty()) {
    path_ = std::move(real);
  } else {
    fail();
  }
  open_beside();
}

void ScoreFile::open_beside() {
  const EndingLater until_known;
  std::string name = path_ + ".XXXXXX";
  const int fd = name.size() < PATH_MAX ? mkstemp(name.data()) : (errno = ENAMETOOLONG, -1);
  if (fd < 0) {
    const int reason = errno;
    if (only_in_place(reason) && (file_ = std::fopen(path_.c_str(), "wb")) != nullptr) return;
    throw CommandError(kExitOther,
                       path_ + ": no temporary file can be made beside it: " + std::strerror(reason));
  }
  temporary_ = name;
  remove_when_ended(temporary_);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  file_ = fchmod(fd, mode_of(path_)) == 0 ? fdopen(fd, "wb") : nullptr;
  if (file_ != nullptr) return;
  const int reason = errno;
  close(fd);
  unlink(temporary_.c_str());
  remove_when_ended("");
  errno = reason;
  fail();
}

ScoreFile::~ScoreFile() {
  if (file_ != stdout && file_ != nullptr) std::fclose(file_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  remove_when_ended("");
}

void ScoreFile::fail() const {
  throw CommandError(kExitOther, (is_stdout() ? "standard output" : path_) + ": " + std::strerror(errno));
}

void ScoreFile::write_header() {
  has_header_ = true;
  for (size_t h = 0; h < heads_.size(); ++h)
    std::fprintf(file_, "%s%s", h == 0 ? "" : ",", heads_[h].c_str());
  std::fputc('\n', file_);
}

void ScoreFile::write(const float* scores, size_t rows) {
  if (!has_header_) write_header();
  for (size_t r = 0; r < rows; ++r) {
    for (size_t h = 0; h < heads_.size(); ++h)
      std::fprintf(file_, "%.9g%c", static_cast<double>(*scores++), h + 1 == heads_.size() ? '\n' : ',');
  }
  if ((is_stdout() && std::fflush(file_) != 0) || std::ferror(file_) != 0)
    fail();  // a reader may wait for them
}

void ScoreFile::commit() {
  if (!has_header_) write_header();
  if (std::fflush(file_) != 0 || std::ferror(file_) != 0) fail();
  if (file_ == stdout) return;
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  temporary_.clear();
  remove_when_ended("");
}

}  // namespace dpi::tool
