#include "results/write.hpp"

#include "sim/base/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace spillway {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const std::string& text) const { return text; }
  Json operator()(double number) const { return number; }
  Json operator()(std::int64_t number) const { return number; }
  Json operator()(const OwnerMap& map) const { return object(map); }
  Json operator()(const TimeMap& map) const { return object(map); }
  Json operator()(const std::vector<std::string>& list) const { return list; }
  Json operator()(const std::vector<AssumptionLine>& lines) const {
    Json list = Json::array();
    for (const AssumptionLine& line : lines) {
      list.push_back({{"what", line.what},
                      {"value", line.value},
                      {"kind", line.kind},
                      {"source", line.source}});
    }
    return list;
  }

private:
  template <class Map>
  static Json object(const Map& map) {
    Json json = Json::object();
    for (const auto& [key, value] : map) {
      json[key] = value;
    }
    return json;
  }
};

Json to_json(const RunResult& result) {
  Json json;
  for (const Field& field : field_table()) {
    json[field.name] = std::visit(ToJson{}, field.get(result));
  }
  return json;
}
// The columns of one field for a set of results: one, or one per key of a map.
void append_columns(const Field& field, const std::vector<ResultRow>& rows,
                    std::vector<std::vector<std::string>>& table) {
  const auto add_map = [&](auto get) {
    std::vector<std::string> keys;
    for (const ResultRow& row : rows) {
      for (const auto& [key, value] : get(row.result)) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
          keys.push_back(key);
        }
      }
    }
    for (const std::string& key : keys) {
      table[0].push_back(fmt::format("{}.{}", field.name, key));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::string cell;
        for (const auto& [name, value] : get(rows[i].result)) {
          cell = name == key ? fmt::format("{}", value) : cell;
        }
        table[i + 1].push_back(cell);
      }
    }
  };
  const FieldValue first = field.get(rows.front().result);
  if (std::holds_alternative<OwnerMap>(first)) {
    add_map([&](const RunResult& r) { return std::get<OwnerMap>(field.get(r)); });
  } else if (std::holds_alternative<TimeMap>(first)) {
    add_map([&](const RunResult& r) { return std::get<TimeMap>(field.get(r)); });
  } else if (!std::holds_alternative<std::vector<std::string>>(first) &&
             !std::holds_alternative<std::vector<AssumptionLine>>(first)) {
    table[0].emplace_back(field.name);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const FieldValue value = field.get(rows[i].result);
      std::string cell;
      if (const auto* text = std::get_if<std::string>(&value)) {
        cell = *text;
      } else if (const auto* real = std::get_if<double>(&value)) {
        cell = fmt::format("{}", *real);
      } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        cell = fmt::format("{}", *whole);
      }
      table[i + 1].push_back(std::move(cell));
    }
  }
}

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw InputError(
      fmt::format("cannot write '{}': {}", path, std::generic_category().message(error)));
}

void write_all(std::FILE* file, const std::string& text, const std::string& path) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0) {
    cannot_write(path, errno);
  }
}

// A file that is complete but has not got its name yet.
struct PartFile {
  std::string path;
  std::string part; // == path for devices and pipes: there is nothing to replace

  void rename() const {
    std::error_code status;
    if (part != path) {
      fs::rename(part, path, status);
    }
    if (status) {
      cannot_write(path, status.value());
    }
  }
  void discard() const {
    std::error_code ignored;
    if (part != path) {
      fs::remove(part, ignored);
    }
  }
};

// Where the text of `path` goes first.
PartFile part_of(const std::string& path) {
  std::error_code status;
  if (fs::is_directory(path, status)) {
    throw InputError(fmt::format("cannot write '{}': it is a directory", path));
  }
  if (fs::exists(path, status) && !fs::is_regular_file(path, status)) {
    return {path, path};
  }
  const std::string target = written_path(path).string();
  if (fs::is_symlink(target, status)) {
    cannot_write(path, ELOOP);
  }
  return {target, fmt::format("{}.{}.part", target, ::getpid())};
}

PartFile write_beside(const OutputFile& output) {
  const std::string& path = output.path;
  if (path == "-") {
    write_all(stdout, output.text, "standard output");
    return {path, path};
  }
  const PartFile part = part_of(path);
  std::FILE* file = std::fopen(part.part.c_str(), "wb");
  if (file == nullptr) {
    cannot_write(path, errno);
  }
  try {
    write_all(file, output.text, path);
  } catch (...) {
    std::fclose(file);
    part.discard();
    throw;
  }
  if (std::fclose(file) != 0) {
    const int error = errno;
    part.discard();
    cannot_write(path, error);
  }
  return part;
}

// One that is still to be written has no identity yet, only a place.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  namespace fs = std::filesystem;
  std::error_code status;
  if (fs::equivalent(a, b, status)) {
    return true;
  }
  const fs::path place = fs::weakly_canonical(a, status);
  return !status && place == fs::weakly_canonical(b, status) && !status;
}

} // namespace

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) {
    return cell;
  }
  std::string text = "\"";
  for (const char c : cell) {
    text += c == '"' ? "\"\"" : std::string(1, c);
  }
  return text + '"';
}

std::string run_json(const RunResult& result) {
  return to_json(result).dump(2) + '\n';
}

std::string compare_json(const std::vector<ResultRow>& rows) {
  Json json;
  json["results"] = Json::array();
  for (const ResultRow& row : rows) {
    Json object = Json::object();
    for (const auto& [path, value] : row.settings) {
      object["settings"][path] = value;
    }
    object.update(to_json(row.result));
    json["results"].push_back(std::move(object));
  }
  return json.dump(2) + '\n';
}

std::string results_csv(const std::vector<ResultRow>& rows) {
  if (rows.empty()) {
    return {};
  }
  std::vector<std::vector<std::string>> table(rows.size() + 1);
  for (const auto& [name, value] : rows.front().settings) {
    table[0].push_back(name);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [name, value] : rows[i].settings) {
      table[i + 1].push_back(value);
    }
  }
  for (const Field& field : field_table()) {
    append_columns(field, rows, table);
  }
  std::string text;
  for (const std::vector<std::string>& row : table) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      text += (column == 0 ? "" : ",") + csv_cell(row[column]);
    }
    text += '\n';
  }
  return text;
}

void write_output(const std::string& path, const std::string& text) {
  write_outputs({{path, text}});
}

void write_outputs(const std::vector<OutputFile>& files) {
  std::vector<PartFile> parts;
  try {
    for (const OutputFile& file : files) {
      parts.push_back(write_beside(file));
    }
    for (const PartFile& part : parts) {
      part.rename();
    }
  } catch (...) {
    for (const PartFile& part : parts) {
      part.discard();
    }
    throw;
  }
}

void check_output_is_no_input(const std::string& output,
                              const std::vector<std::filesystem::path>& inputs) {
  if (output.empty() || output == "-") {
    return;
  }
  for (const std::filesystem::path& input : inputs) {
    if (!input.empty() && same_file(output, input)) {
      throw InputError(fmt::format("'{}' would overwrite its own input", output),
                       fmt::format("'{}' is read; write to another file", input.string()));
    }
  }
}

fs::path written_path(fs::path path) {
  constexpr int most_links = 40; // as many as the system follows
  std::error_code status;
  for (int links = 0; links < most_links && fs::is_symlink(path, status); ++links) {
    path = path.parent_path() / fs::read_symlink(path, status);
  }
  return path;
}

} // namespace spillway
