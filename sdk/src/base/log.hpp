// Messages to the host program: a callback, and a ring of the last ones for languages that poll. Load and
// management paths only, never predict. Nothing is printed.
#pragma once

#include <cstdint>
#include <string>

namespace dpi {

enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

using LogCallback = void (*)(void* user, int32_t level, const char* component, const char* message);

void set_log_callback(LogCallback callback, void* user, LogLevel min_level);
void log_message(LogLevel level, const char* component, const std::string& message);
/// Takes the oldest kept message as "component: message". False when there is none.
bool poll_log(std::string* text, LogLevel* level);

}  // namespace dpi
