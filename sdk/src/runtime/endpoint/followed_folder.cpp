#include "runtime/endpoint/followed_folder.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/clock.hpp"

namespace dpi {

namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

/// The n-th pause, n from 1: doubled each time, up to a bound.
uint64_t pause_ns(int64_t n, const EndpointSettings& s) {
  const auto doubled =
      static_cast<double>(s.follow_ms) * static_cast<double>(uint64_t{1} << std::min<int64_t>(n, 40));
  return static_cast<uint64_t>(std::min(doubled, static_cast<double>(s.back_off_ms))) * kNsPerMs;
}

/// True if this process can never load the same bytes.
bool is_files_fault(Code code) {
  return code == Code::kBadModel || code == Code::kUnsupported || code == Code::kVersion;
}

}  // namespace

void FollowedFolder::begin_look(const EndpointSettings& settings) {
  look_at_ns_ = monotonic_ns() + static_cast<uint64_t>(settings.follow_ms) * kNsPerMs;
}

bool FollowedFolder::note_status(const Status& status, const EndpointSettings& settings) {
  const bool first = !status.ok() && errors_ == 0;
  if (status.ok()) errors_ = 0;
  status_ = status;
  if (!status.ok()) put_off(settings);
  return first;
}

void FollowedFolder::put_off(const EndpointSettings& settings) {
  look_at_ns_ = monotonic_ns() + pause_ns(++errors_, settings);
}

void FollowedFolder::keep_refusals_of(const std::vector<FoundUpdate>& found) {
  std::map<std::string_view, const FoundUpdate*> here;
  for (const FoundUpdate& f : found) here[f.path] = &f;
  std::erase_if(refused_, [&](const auto& r) {
    const auto f = here.find(r.first);
    return f == here.end() || !f->second->same_file(r.second.found);
  });
}

void FollowedFolder::note_refused(const FoundUpdate& found, const Status& why,
                                  const EndpointSettings& settings) {
  if (!is_followed()) return;
  const auto [at, is_new] = refused_.try_emplace(found.path, Refused{found, why, 1, 0});
  Refused& r = at->second;
  if (!is_new) r = {found, why, r.tries + 1, 0};
  r.again_ns = is_files_fault(why.code()) ? UINT64_MAX : monotonic_ns() + pause_ns(r.tries, settings);
}

bool FollowedFolder::may_try(const FoundUpdate& found) const {
  const auto before = refused_.find(found.path);
  return before == refused_.end() || before->second.again_ns <= monotonic_ns();
}

void FollowedFolder::try_refused_again(Code code) {
  for (auto& [path, r] : refused_)
    if (r.why.code() == code) r.again_ns = 0;
}

std::vector<std::string> FollowedFolder::note_gaps(std::vector<Refused> gaps) {
  std::vector<std::string> news;
  for (const Refused& g : gaps) {
    const auto known = [&](const Refused& r) { return r.found.path == g.found.path; };
    if (std::none_of(gaps_.begin(), gaps_.end(), known)) news.push_back(g.why.message());
  }
  gaps_.clear();
  if (is_followed()) gaps_ = std::move(gaps);
  return news;
}

Status FollowedFolder::refusal(const std::string& path) const {
  if (const auto r = refused_.find(path); r != refused_.end()) return r->second.why;
  const auto gap =
      std::find_if(gaps_.begin(), gaps_.end(), [&](const Refused& x) { return x.found.path == path; });
  return gap != gaps_.end() ? gap->why : Status();
}

bool FollowedFolder::was_passed(const FoundUpdate& found) const {
  return std::any_of(passed_.begin(), passed_.end(),
                     [&](const Passed& p) { return p.found.same_file(found); });
}

void FollowedFolder::note_passed(std::vector<Passed> passed) {
  passed_ = std::move(passed);
  is_first_look_ = false;
}

}  // namespace dpi
