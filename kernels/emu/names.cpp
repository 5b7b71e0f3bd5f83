// Names of kernels, from the symbol table of the program or plugin they are in: kernels are local functions,
// which the dynamic loader does not know. Read once per file. Compile as fiber.cpp.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "kernels/emu/schedule.hpp"

namespace dpi::emu {

namespace {

using Symbols = std::map<uint64_t, std::string>;  // address in the file -> mangled name

template <class T>
const T* at(const std::string& file, uint64_t offset, uint64_t n = 1) {
  if (offset > file.size() || n > (file.size() - offset) / sizeof(T)) return nullptr;
  return reinterpret_cast<const T*>(file.data() + offset);
}

void add_functions(const std::string& file, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                   Symbols* out) {
  const uint64_t n = table.sh_size / sizeof(Elf64_Sym);
  const auto* symbols = at<Elf64_Sym>(file, table.sh_offset, n);
  const auto* text = at<char>(file, strings.sh_offset, strings.sh_size);
  if (symbols == nullptr || text == nullptr) return;
  for (uint64_t i = 0; i < n; ++i) {
    if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || symbols[i].st_name >= strings.sh_size) continue;
    (*out)[symbols[i].st_value] = text + symbols[i].st_name;
  }
}

Symbols read_symbols(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), {});
  Symbols found;
  const auto* header = at<Elf64_Ehdr>(file, 0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return found;
  const auto* sections = at<Elf64_Shdr>(file, header->e_shoff, header->e_shnum);
  for (int i = 0; sections != nullptr && i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum)
      add_functions(file, sections[i], sections[sections[i].sh_link], &found);
  }
  return found;
}

void replace_all(std::string* text, const std::string& what, const std::string& by) {
  for (size_t i = text->find(what); i != std::string::npos; i = text->find(what, i))
    text->replace(i, what.size(), by);
}

// "void ns::(anonymous namespace)::f<4, ns::g>(float*)" -> "f<4, g>"
std::string short_name(const std::string& mangled) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = demangled != nullptr ? demangled : mangled;
  std::free(demangled);
  replace_all(&name, "(anonymous namespace)::", "");
  replace_all(&name, "dpi::kernels::cuda::", "");
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth > 0) continue;
    if (name[i] == '(') return name.substr(begin, i - begin);
    if (name[i] == ' ' || name[i] == ':') begin = i + 1;
  }
  return name.substr(begin);
}

}  // namespace

std::string name_of(const Job& job) {
  if (job.work == Work::kCopy) return std::to_string(job.bytes);
  static auto* const kFiles = new std::map<void*, Symbols>;
  Dl_info info{};
  if (job.kernel == nullptr || dladdr(job.kernel, &info) == 0 || info.dli_fname == nullptr) return "kernel";
  auto file = kFiles->find(info.dli_fbase);
  if (file == kFiles->end()) file = kFiles->emplace(info.dli_fbase, read_symbols(info.dli_fname)).first;
  // Shared objects and position-independent programs: addresses in the file count from the base.
  const auto address = reinterpret_cast<uint64_t>(job.kernel);
  auto symbol = file->second.find(address - reinterpret_cast<uint64_t>(info.dli_fbase));
  if (symbol == file->second.end()) symbol = file->second.find(address);
  return symbol == file->second.end() ? "kernel" : short_name(symbol->second);
}

}  // namespace dpi::emu
