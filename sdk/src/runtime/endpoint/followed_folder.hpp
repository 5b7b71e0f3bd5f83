// The folder that an endpoint follows: when the next look is due, and which of its files are refused, held
// back or not taken, and why. The endpoint's state_mutex_ guards all of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/endpoint/settings.hpp"
#include "runtime/endpoint/update.hpp"

namespace dpi {

class JsonWriter;

class FollowedFolder {
 public:
  /// A file that could not be loaded, or a delta that no file leads to yet.
  struct Refused {
    FoundUpdate found;
    Status why;
    int64_t tries = 1;
    uint64_t again_ns = 0;  // not before; UINT64_MAX: it is another file or never
  };
  /// A file that will not be loaded although nothing is wrong with it.
  struct Passed {
    FoundUpdate found;
    std::string why;
  };

  /// "" ends the following.
  void follow(const std::string& path) {
    std::string next = path;  // may need memory that is not there
    *this = {};
    path_ = std::move(next);
  }
  const std::string& path() const { return path_; }
  bool is_followed() const { return !path_.empty(); }

  /// Time of the next look; UINT64_MAX: none.
  uint64_t due_ns() const { return is_followed() ? look_at_ns_ : UINT64_MAX; }
  void begin_look(const EndpointSettings& settings);
  /// Soon, unless the folder could not be read a moment ago.
  void look_soon() {
    if (errors_ == 0) look_at_ns_ = 0;
  }
  /// At the last look.
  bool is_unreadable() const { return !status_.ok(); }
  /// How reading the folder went. True: it failed, and had not before.
  bool note_status(const Status& status, const EndpointSettings& settings);
  /// Puts the next look off, as an unreadable folder does.
  void put_off(const EndpointSettings& settings);

  /// Forgets refusals of files that are not among `found` any more.
  void keep_refusals_of(const std::vector<FoundUpdate>& found);
  void note_refused(const FoundUpdate& found, const Status& why, const EndpointSettings& settings);
  /// False: it was refused, and its pause is not over.
  bool may_try(const FoundUpdate& found) const;
  /// Files refused with this code are tried at the next look.
  void try_refused_again(Code code);
  /// Deltas that nothing leads to yet, as of this look. Returns the reasons of those that the last look did
  /// not have.
  std::vector<std::string> note_gaps(std::vector<Refused> gaps);
  /// OK: the file at `path` is neither refused nor held back.
  Status refusal(const std::string& path) const;

  bool is_first_look() const { return is_first_look_; }
  bool was_passed(const FoundUpdate& found) const;
  void note_passed(std::vector<Passed> passed);

  void describe(JsonWriter* w) const;  // describe/endpoint_json.cpp

 private:
  std::string path_;
  uint64_t look_at_ns_ = 0;
  int64_t errors_ = 0;  // one after the other
  Status status_;
  std::map<std::string, Refused> refused_;  // by path: a folder may hold thousands
  std::vector<Refused> gaps_;               // deltas that no file leads to yet: looked at each time
  std::vector<Passed> passed_;              // those of the highest numbers
  bool is_first_look_ = true;
};

}  // namespace dpi
