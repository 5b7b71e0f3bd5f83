// Which files of a folder lead to a version.
#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/user_block.hpp"
#include "runtime/endpoint/update.hpp"

namespace dpi {

namespace {

Result<DeltaEnds> ends_of_bundle(const std::string& path) {
  DPI_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> file, ByteSource::open_file(path));
  DPI_ASSIGN_OR_RETURN(const UserBlock block, read_user_block(*file));
  DeltaEnds ends;
  DPI_ASSIGN_OR_RETURN(ends.version, version_of(block));
  return ends;
}

}  // namespace

void UpdateChooser::look_at(std::vector<FoundUpdate> found) {
  std::map<std::string, Head> before;
  for (Head& h : heads_) before.emplace(h.file.path, std::move(h));
  std::vector<Head> heads;
  for (const FoundUpdate& f : found) {
    const auto h = before.find(f.path);
    const bool is_known = h != before.end() && h->second.file.same_file(f);
    heads.push_back(is_known ? std::move(h->second) : Head{f, true, false, {}, {}});
    heads.back().is_new = !is_known;
  }
  found_ = std::move(found);
  heads_ = std::move(heads);
}

const UpdateChooser::Head& UpdateChooser::head(size_t i) {
  Head& h = heads_[i];
  if (h.known) return h;
  auto ends = h.file.is_delta ? Delta::read_ends(h.file.path) : ends_of_bundle(h.file.path);
  h.known =
      ends.ok() || ends.status().code() == Code::kBadModel || ends.status().code() == Code::kUnsupported;
  h.status = ends.status();
  if (ends.ok()) h.ends = *ends;
  return h;
}

/// Backwards from the target, one delta further at a time: a version is reached by the shortest way first.
bool UpdateChooser::find_way(size_t target, const ContentHash* serving, const std::vector<bool>& usable,
                             std::vector<size_t>* way) {
  std::map<ContentHash, size_t> next_of;  // the delta that leads on from a version
  std::vector<ContentHash> edge{head(target).ends.base};
  next_of[edge[0]] = target;
  for (size_t at = 0; at < edge.size(); ++at) {
    const ContentHash version = edge[at];
    const auto is_start = [&](size_t i) {
      return !found_[i].is_delta && usable[i] && head(i).status.ok() && head(i).ends.version == version;
    };
    size_t start = found_.size();
    if (serving == nullptr)
      for (start = 0; start < found_.size() && !is_start(start);) ++start;
    if (serving != nullptr ? version == *serving : start < found_.size()) {
      if (serving == nullptr) way->push_back(start);
      for (ContentHash from = version;; from = head(way->back()).ends.version) {
        way->push_back(next_of.at(from));
        if (way->back() == target) return true;
      }
    }
    for (size_t i = 0; i < found_.size(); ++i) {
      if (!found_[i].is_delta || !usable[i] || !head(i).status.ok()) continue;
      if (head(i).ends.version != version || next_of.contains(head(i).ends.base)) continue;
      next_of[head(i).ends.base] = i;
      edge.push_back(head(i).ends.base);
    }
  }
  return false;
}

Result<Update> UpdateChooser::way_to(size_t i, const ContentHash* serving, const std::vector<bool>& usable) {
  const FoundUpdate& f = found_[i];
  Update update;
  update.path = f.path;
  update.number = f.number;
  if (!f.is_delta) {
    update.whole = f.path;
    return update;
  }
  if (!head(i).status.ok()) return head(i).status;
  const DeltaEnds& ends = head(i).ends;
  std::vector<size_t> way;
  if ((serving == nullptr || !find_way(i, serving, usable, &way)) && !find_way(i, nullptr, usable, &way)) {
    if (serving != nullptr && ends.version == *serving)
      return Status(Code::kNotFound, f.path + ": gives what serves");
    return bad_model(f.path + ": starts from version " + hex_bytes(ends.base) +
                     ", which no file of the folder leads to" +
                     (serving != nullptr ? " from version " + hex_bytes(*serving) + " that serves" : ""));
  }
  for (const size_t w : way) {
    if (found_[w].is_delta)
      update.deltas.push_back(found_[w].path);
    else
      update.whole = found_[w].path;
  }
  return update;
}

}  // namespace dpi
