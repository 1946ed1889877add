#include "hw_models/calibration/hardware_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace spillway {
namespace {

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    all += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return all + '"';
}

// Bytes in full; everything else as people read it, to four digits. A quantity is
// quoted, a plain number is not.
std::string value_text(const Coefficient& c, double value) {
  if (!c.dimension) {
    return format_coefficient(c, value);
  }
  return quoted(c.dimension == Dimension::bytes ? fmt::format("{:.0f} B", value)
                                                : format_coefficient(c, value));
}

std::string head(const Calibration& calibration) {
  std::string files = fmt::format("{}", fmt::join(calibration.files, ", "));
  std::replace_if(
      files.begin(), files.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return fmt::format("# Written by `spillway calibrate` from {}.\n", files);
}

// Each line of a table behind `first` (the first one) or `indent`.
std::string table_lines(const Calibration& calibration, const MeasuredTable& table,
                        const std::string& source_title, const std::string& first,
                        const std::string& indent) {
  std::string text;
  const auto line = [&](const std::string& content) {
    text += (text.empty() ? first : indent) + content + '\n';
  };
  line("kind: kernel_table");
  line("op: " + KernelTable::name_of(table.op));
  line("dtype: bf16");
  line("stage: " + table.stage);
  line("device: " + quoted(calibration.device));
  line("provenance: measured");
  line("source:");
  line("  title: " + quoted(source_title));
  if (table.timing_overhead > 0) {
    line("timing_overhead:");
    line(fmt::format("  value: \"{}\"", format_seconds(table.timing_overhead)));
    line("  kind: measured");
    line("  note: " + quoted(table.timing_note));
  }
  const std::vector<std::string>& columns = KernelTable::columns_of(table.op);
  line(fmt::format("columns: [{}]", fmt::join(columns, ", ")));
  line("rows: |");
  for (const Sample& row : table.rows) {
    const auto sizes = std::span(row.shape).first(columns.size() - 1);
    line(fmt::format("  {} {:.3f}", fmt::join(sizes, " "), row.seconds * 1e6));
  }
  return text;
}

std::string coefficient_lines(const FittedCoefficient& fitted, const std::string& key,
                              const std::string& indent, const std::string& source_tag) {
  const Coefficient& c = fitted.coefficient;
  return fmt::format("{0}{1}:\n"
                     "{0}  value: {2}\n"
                     "{0}  low: {3}\n"
                     "{0}  high: {4}\n"
                     "{0}  kind: {5}\n"
                     "{0}  source: {6}\n"
                     "{0}  note: {7}\n",
                     indent, key, value_text(c, c.value), value_text(c, c.low),
                     value_text(c, c.high), c.kind, source_tag, quoted(fitted.note));
}

// The coefficients below `section`, one level of maps in between at most.
std::string section_lines(const Calibration& calibration, const std::string& section,
                          const std::string& source_tag) {
  std::string text;
  std::string open;
  for (const FittedCoefficient& fitted : calibration.coefficients) {
    const std::string& path = fitted.coefficient.path;
    if (!path.starts_with(section + '.')) {
      continue;
    }
    const std::string below = path.substr(section.size() + 1);
    const std::size_t dot = below.find('.');
    if (dot == std::string::npos) {
      text += coefficient_lines(fitted, below, "  ", source_tag);
      continue;
    }
    if (below.substr(0, dot) != open) {
      open = below.substr(0, dot);
      text += "  " + open + ":\n";
    }
    text += coefficient_lines(fitted, below.substr(dot + 1), "    ", source_tag);
  }
  return text;
}

std::string kernels_lines(const Calibration& calibration, const HardwareFile& file) {
  std::string text;
  for (std::size_t i = 0; i < calibration.tables.size(); ++i) {
    const MeasuredTable& table = calibration.tables[i];
    if (i == 0 || table.op != calibration.tables[i - 1].op) {
      text += "    " + KernelTable::name_of(table.op) + ":\n      bf16:\n";
    }
    if (file.table_files.empty()) {
      text += table_lines(calibration, table, file.source_title, "        - ", "          ");
    } else {
      text += "        - " + quoted(file.table_files[i]) + '\n';
    }
  }
  return text.empty() ? text : "  kernels:\n" + text;
}

} // namespace

std::string table_yaml(const Calibration& calibration, const MeasuredTable& table,
                       const std::string& source_title) {
  std::string text = head(calibration);
  for (const std::string& line : table.about) {
    text += "# " + line + '\n';
  }
  return text + table_lines(calibration, table, source_title, "", "");
}

std::string hardware_yaml(const Calibration& calibration, const HardwareFile& file) {
  std::string text = head(calibration);
  text += "# low and high: 95 % interval of the fit, united with the rates of single large and the "
          "latencies\n# of single small measurements.\n";
  text += "kind: hardware\n";
  text += file.extends.empty() ? "" : fmt::format("extends: {}\n", quoted(file.extends));
  text += fmt::format("name: {}\ntitle: {}\n", quoted(file.name), quoted(file.title));
  text +=
      fmt::format("sources:\n  {}:\n    title: {}\n", file.source_tag, quoted(file.source_title));
  text += "gpu:\n" + section_lines(calibration, "gpu", file.source_tag) +
          kernels_lines(calibration, file);
  const std::string host = section_lines(calibration, "host", file.source_tag);
  return host.empty() ? text : text + "host:\n" + host;
}

} // namespace spillway
