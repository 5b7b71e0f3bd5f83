// `dpi keygen` and `dpi sign`: keys, and who answers for a bundle.
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "bundle/bundle.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/shared/hash_threads.hpp"
#include "sdk/tools/dpi/shared/key_file.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

int keygen(const std::string& path) {
  const SigningKey key = take(make_signing_key());
  const KeyId id = take(key_id_of(key.public_key));
  write_key_files(path, key);
  print_line(stdout, "secret     %s", path.c_str());
  print_line(stdout, "public     %s.pub: %s", path.c_str(), hex_bytes(key.public_key).c_str());
  print_line(stdout, "key id     %s", hex_bytes(id).c_str());
  return kExitOk;
}

int sign(const SignArgs& args) {
  if (args.key.empty() == args.remove.empty())
    throw CommandError(kExitUsage, "sign needs one of --key and --remove");
  if (!args.remove.empty()) {
    check(remove_signature(args.bundle, parse_key_id(args.remove)), true);
    print_line(stdout, "%s: no longer signed by key %s", args.bundle.c_str(), args.remove.c_str());
    return kExitOk;
  }
  const SigningKey key = read_signing_key(args.key);
  HashThreads threads;
  {
    Progress progress("checking hashes");
    check(sign_file(args.bundle, key, threads.workers(),
                    [&](uint64_t done, uint64_t total) { progress.update(done, total); }),
          true);
  }
  print_line(stdout, "%s: signed by key %s", args.bundle.c_str(),
             hex_bytes(take(key_id_of(key.public_key))).c_str());
  return kExitOk;
}

}  // namespace dpi::tool
