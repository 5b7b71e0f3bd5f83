// The share of the machine that this process may use: processors by its affinity mask, processors and memory
// by its control groups (cgroup v1 and v2, as containers set them). Read anew at each call, in about 100 us:
// limits may change while a process runs.
#pragma once

#include <cstdint>
#include <string>

namespace dpi {

/// Processors that threads started from the calling one can keep busy: those of its affinity mask, at most
/// the quota of its control groups, rounded up. At least 1.
int32_t usable_processors();

/// Bytes of memory that the process can still get: MemAvailable of /proc/meminfo, at most what the limits of
/// its control groups leave. 0 = unknown.
uint64_t usable_memory();

// What the process's control groups and those above them leave it. What cannot be read is no limit. `root`
// stands before /proc and the mount points: "" is this machine, tests have folders of their own.

/// Quota over period; 0 = no quota.
double group_processors(const std::string& root);

/// Bytes: limit less use, where file pages that the kernel can take back count as free. UINT64_MAX = no
/// limit.
uint64_t group_memory_left(const std::string& root);

}  // namespace dpi
