// `dpi keygen` and `dpi sign`: keys, and who answers for a bundle.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/text.hpp"
#include "base/thread_pool.hpp"
#include "bundle/bundle.hpp"
#include "key_file.hpp"
#include "loaded_model.hpp"
#include "terminal.hpp"

namespace dpi::tool {

namespace {

constexpr const char* kKeygenFooter =
    R"(Writes FILE, the secret, readable by its owner only, and FILE.pub. Services that load bundles need the public key only.

Example:
  dpi keygen team.key)";

constexpr const char* kSignFooter =
    R"(Checks every hash of the bundle and adds a signature by the key, in place of an older one by the same key. Signatures by
other keys stay, so a bundle can be signed with the next key before services stop to know the last one.

Examples:
  dpi sign model.h5 --key team.key
  dpi sign model.h5 --remove 6f0c9f1d23ab57e48d1c0b9a7e5f4321
  dpi verify model.h5 --option require_signature=<hex public key>)";

struct SignArgs {
  std::string bundle, key, remove;
};

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
  const auto threads = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  ThreadPool pool;
  check(pool.grow(threads), true);
  {
    Progress progress("checking hashes");
    check(sign_file(args.bundle, key, {&pool, threads},
                    [&](uint64_t done, uint64_t total) { progress.update(done, total); }),
          true);
  }
  print_line(stdout, "%s: signed by key %s", args.bundle.c_str(),
             hex_bytes(take(key_id_of(key.public_key))).c_str());
  return kExitOk;
}

}  // namespace

void add_keygen(CLI::App* app, Command* run) {
  auto path = std::make_shared<std::string>();
  CLI::App* sub = app->add_subcommand("keygen", "Make a key to sign bundles with");
  sub->footer(kKeygenFooter);
  sub->add_option("file", *path, "where the secret goes; it must not exist")->required();
  sub->callback([path, run] { *run = [path] { return keygen(*path); }; });
}

void add_sign(CLI::App* app, Command* run) {
  auto args = std::make_shared<SignArgs>();
  CLI::App* sub = app->add_subcommand("sign", "Sign a bundle, or take a signature away");
  sub->footer(kSignFooter);
  sub->add_option("bundle", args->bundle, "the model; its user block is changed in place")->required();
  sub->add_option("--key", args->key, "a file that dpi keygen wrote");
  sub->add_option("--remove", args->remove, "take away the signature by the key of this id");
  sub->callback([args, run] { *run = [args] { return sign(*args); }; });
}

}  // namespace dpi::tool
