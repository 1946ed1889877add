// A folder for files that a test writes.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace spillway {

// A folder of this test alone; what is in it goes when the test is over, unless
// the test ends in an exception: then it stays for whoever looks into it.
class TemporaryFolder {
public:
  TemporaryFolder() : exceptions_(std::uncaught_exceptions()) {
    std::string name = (std::filesystem::temp_directory_path() / "spillway-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (std::uncaught_exceptions() == exceptions_) {
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
    }
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string path() const { return path_.string(); }

  // Writes a file and says where it is.
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    if (std::filesystem::file_size(file) != text.size()) {
      throw std::runtime_error("cannot write " + file.string());
    }
    return file.string();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

private:
  std::filesystem::path path_;
  int exceptions_;
};

} // namespace spillway
