// A fuzz target without libFuzzer, for any compiler: the seeds as they are, and each cut
// off and with bits flipped in places that are the same on every run.
//
//   replay_seeds TARGET FOLDER
#include "tests/fuzz/targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = 8192; // as libFuzzer is told
constexpr int changes_per_seed = 40;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return bytes.substr(0, most_bytes);
}

std::string changed(std::string bytes, std::mt19937_64& random) {
  if (random() % 2 == 0) {
    return bytes.substr(0, random() % (bytes.size() + 1));
  }
  for (std::size_t flips = random() % 8 + 1; flips > 0 && !bytes.empty(); --flips) {
    char& byte = bytes[random() % bytes.size()];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (random() % 8)));
  }
  return bytes;
}

int replay(const std::string& target_name, const fs::path& folder) {
  const spillway::FuzzTarget& target = spillway::fuzz_targets().at(target_name);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::mt19937_64 random(1);
  for (const fs::path& file : files) {
    const std::string seed = bytes_of(file);
    std::string bytes = seed;
    try {
      target(bytes);
      for (int change = 0; change < changes_per_seed; ++change) {
        bytes = changed(seed, random);
        target(bytes);
      }
    } catch (const std::exception& error) {
      std::ofstream("finding", std::ios::binary) << bytes;
      fmt::print(stderr, "{}, changed or not: {}\nthe bytes are in 'finding'\n", file.string(),
                 error.what());
      return 1;
    }
  }
  fmt::print("{} seeds\n", files.size());
  return files.empty() ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    fmt::print(stderr, "usage: replay_seeds TARGET FOLDER\n");
    return 2;
  }
  return replay(argv[1], argv[2]);
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 2;
}
