#pragma once

namespace weft {

inline constexpr const char* kRedisVersion = "7.0.15";  // whose commands and texts we follow

}  // namespace weft
