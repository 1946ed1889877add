// Measurements that tests of calibrate share.
#pragma once

#include <string>

namespace spillway {

// Records of a made-up machine with copies only.
inline const std::string small_machine = [] {
  std::string text =
      "{\"kind\": \"device\", \"name\": \"Own GPU\", \"total\": 80000000000, \"l2\": 50000000}\n";
  for (const double bytes : {4e3, 64e3, 1e6, 16e6, 256e6}) {
    text += "{\"kind\": \"copy\", \"bytes\": " + std::to_string(static_cast<long>(bytes)) +
            ", \"d2h_s\": " + std::to_string(3e-6 + bytes / 50e9) +
            "0, \"h2d_s\": " + std::to_string(4e-6 + bytes / 40e9) + "}\n";
  }
  return text;
}();

} // namespace spillway
