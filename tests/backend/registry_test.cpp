// Choosing among backends, and what every built-in one must be.
#include "backend/abi/registry.hpp"

#include <cstring>
#include <string>

#include <doctest/doctest.h>

namespace dpi::backend::registry_test {
namespace {

Result<OpenedBackend> open(const std::string& device) {
  BackendRequest request;
  request.device = device;
  request.options.device_index = -1;
  return open_backend(request);
}

}  // namespace

TEST_CASE("registry: an instruction set that is none is refused by its name") {
  BackendRequest request;
  request.device = "cpu";
  request.options.struct_size = sizeof request.options;
  request.options.isa = "sse9";
  const auto opened = open_backend(request);
  CHECK(opened.status().code() == Code::kInvalidArgument);
  CHECK(opened.status().message().find("sse9") != std::string::npos);
}

TEST_CASE("registry: built-in backends are complete") {
  for (const char* name : {"ref", "cpu"}) {
    INFO(name);
    const auto opened = open(name);
    REQUIRE_MESSAGE(opened.ok(), opened.status().message());
    const dpi_backend_api& api = *opened->api;
    CHECK(api.abi_version == DPI_BACKEND_ABI);
    CHECK(api.struct_size == sizeof(dpi_backend_api));
    CHECK(std::string(api.name) == name);
    dpi_backend_caps caps{};
    caps.struct_size = sizeof(caps);
    dpi_backend_error err{};
    REQUIRE(api.caps(opened->device, &caps, &err) == 0);
    CHECK((caps.flags & DPI_BACKEND_HOST_MEMORY) != 0);
    CHECK(caps.alignment >= 64);
    CHECK((caps.alignment & (caps.alignment - 1)) == 0);
    CHECK(caps.max_streams >= 1);
    CHECK(caps.device_name[0] != '\0');
    api.close(opened->device);
  }
}

TEST_CASE("registry: memory is aligned, copies arrive, too much is out of memory") {
  for (const char* name : {"ref", "cpu"}) {
    INFO(name);
    const auto opened = open(name);
    REQUIRE(opened.ok());
    const dpi_backend_api& api = *opened->api;
    dpi_backend_error err{};
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}}) {
      void* p = nullptr;
      REQUIRE(api.alloc(opened->device, bytes, DPI_MEMORY_ARENA, &p, &err) == 0);
      CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
      const std::string text(bytes, 'x');
      std::string back(bytes, ' ');
      CHECK(api.upload(opened->device, p, text.data(), bytes, &err) == 0);
      CHECK(api.download(opened->device, back.data(), p, bytes, &err) == 0);
      CHECK(text == back);
      api.free(opened->device, p, DPI_MEMORY_ARENA);
    }
    void* p = nullptr;
    CHECK(api.alloc(opened->device, SIZE_MAX, DPI_MEMORY_TABLE, &p, &err) ==
          static_cast<int32_t>(Code::kOutOfMemory));
    CHECK(p == nullptr);
    CHECK(std::strstr(err.message, "18446744073709551615") != nullptr);
    api.close(opened->device);
  }
}

TEST_CASE("registry: auto falls back to cpu and says why") {
  const auto opened = open("auto");
  REQUIRE_MESSAGE(opened.ok(), opened.status().message());
  const std::string name = opened->api->name;
  if (name != "cuda") {
    CHECK(name == "cpu");
    CHECK(opened->note.find("backend 'cuda'") != std::string::npos);
  }
  opened->api->close(opened->device);
}

TEST_CASE("registry: ref refuses what it cannot do") {
  BackendRequest request;
  request.device = "ref";
  request.options.precision = 2;
  const auto opened = open_backend(request);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.status().code() == Code::kUnsupported);
  CHECK(opened.status().message() ==
        "backend 'ref': ref computes in fp32 only, precision fp16 was asked; use fp32, or device=cuda");
}

TEST_CASE("registry: the list names built-in backends and what is missing") {
  const auto reports = list_backends("");
  REQUIRE(reports.size() >= 3);
  CHECK(reports[0].name == "ref");
  CHECK(reports[0].usable);
  CHECK(reports[0].caps.memory_total > 0);
  CHECK(reports[1].name == "cpu");
  CHECK(reports[1].usable);
  CHECK(reports[2].name == "cuda");
  CHECK(reports[2].usable == reports[2].reason.empty());
}

}  // namespace dpi::backend::registry_test
