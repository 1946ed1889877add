#include "hw_models/calibration/measurements.hpp"

#include "hw_models/calibration/json_line.hpp"
#include "sim/base/input_file.hpp"
#include "sim/base/source_text.hpp"
#include "sim/base/work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace spillway {
namespace {

using Json = nlohmann::json;

// A record's error and the field that it is about, without its place.
struct RecordError : std::runtime_error {
  RecordError(std::string about, const std::string& message, std::string advice = {})
      : std::runtime_error(message), key(std::move(about)), hint(std::move(advice)) {}
  std::string key;
  std::string hint;
};

// The strict reader of one record.
class Record {
public:
  Record(Json json, Place at) : place(std::move(at)), json_(std::move(json)) {
    if (!json_.is_object()) {
      throw RecordError("", "a record must be a JSON object");
    }
  }

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }

  [[nodiscard]] std::int64_t whole(const char* key, std::int64_t most = 10'000'000) const {
    const Json& value = member(key);
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                          : value.is_number_integer() && value.get<std::int64_t>() <= most;
    if (!fits || value.get<std::int64_t>() < 1) {
      throw RecordError(key, fmt::format("'{}' must be a whole number between 1 and {}, not {}",
                                         key, most, shown(value)));
    }
    return value.get<std::int64_t>();
  }

  [[nodiscard]] std::int64_t bytes(const char* key) const {
    return whole(key, std::int64_t{1} << 50);
  }

  [[nodiscard]] double seconds(const char* key) const {
    const double value = number(key);
    if (!(value >= 1e-9) || !(value < 1e6)) {
      throw RecordError(key, fmt::format("'{}' must be a time between 1e-9 and 1e6 seconds, not {}",
                                         key, shown(member(key))));
    }
    return value;
  }

  // Above 0 and at most `most`.
  [[nodiscard]] double positive(const char* key, double most) const {
    const double value = number(key);
    if (!(value > 0) || !(value <= most)) {
      throw RecordError(key, fmt::format("'{}' must be greater than 0 and at most {:g}, not {}",
                                         key, most, shown(member(key))));
    }
    return value;
  }

  // One of `known`.
  [[nodiscard]] std::string one_of(const char* key, std::span<const std::string> known) const {
    std::string value = text(key);
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      throw RecordError(key, fmt::format("unknown value '{}' for '{}'", value, key),
                        suggestion(value, known));
    }
    return value;
  }

  // GB/s, as bytes/s.
  [[nodiscard]] double rate(const char* key, bool zero) const {
    const double value = number(key);
    if (zero ? value != 0 : !(value > 0) || !(value < 1e9)) {
      throw RecordError(key,
                        fmt::format("'{}' must be {}, not {}", key,
                                    zero ? "0 where no such copy runs" : "a rate greater than 0",
                                    shown(member(key))));
    }
    return value * 1e9;
  }

  [[nodiscard]] bool flag(const char* key) const {
    const Json& value = member(key);
    if (!value.is_boolean()) {
      throw RecordError(key, fmt::format("'{}' must be true or false, not {}", key, shown(value)));
    }
    return value.get<bool>();
  }

  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = member(key);
    if (!value.is_string() || value.get<std::string>().empty()) {
      throw RecordError(key, fmt::format("'{}' must be text, not {}", key, shown(value)));
    }
    auto text = value.get<std::string>();
    if (find_control_character(text) || text.find('\n') != std::string::npos) {
      throw RecordError(key, fmt::format("'{}' must not hold control characters", key));
    }
    if (constexpr std::size_t most = 200; count_columns(text) > most) {
      throw RecordError(key, fmt::format("'{}' must not be longer than {} characters", key, most));
    }
    return text;
  }

  // A rate that the record derives from its own time, where it has one.
  void check_derived(const char* key, double expected, const char* time) const {
    constexpr double rounding = 0.01; // the rates are printed with few digits
    if (!has(key)) {
      return;
    }
    const double value = number(key);
    if (!(std::abs(value - expected) <= rounding * expected)) {
      throw RecordError(key, fmt::format("'{}' is {}, but the sizes and '{}' say {:.5g}", key,
                                         shown(member(key)), time, expected));
    }
  }

  Place place;

private:
  [[nodiscard]] const Json& member(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) {
      throw RecordError("", fmt::format("missing field '{}'", key));
    }
    return *found;
  }

  [[nodiscard]] double number(const char* key) const {
    const Json& value = member(key);
    if (!value.is_number()) {
      throw RecordError(key, fmt::format("'{}' must be a number, not {}", key, shown(value)));
    }
    return value.get<double>();
  }

  Json json_;
};

// m, n, k of each product
double product_flops(std::int64_t groups, const Shape& shape) {
  Work work;
  work.kind = WorkKind::matmul;
  work.groups = groups;
  work.m = shape[0];
  work.n = shape[1];
  work.k = shape[2];
  return work.flops().value();
}

// batch, heads, kv_heads, seq, qk_dim, v_dim
double attention_flops(const Shape& shape, Stage stage) {
  Work work;
  work.kind = WorkKind::attention;
  work.stage = stage;
  work.batch = shape[0];
  work.heads = shape[1];
  work.kv_heads = shape[2];
  work.seq = shape[3];
  work.qk_dim = shape[4];
  work.v_dim = shape[5];
  return work.flops().value();
}

// Tables exist for bf16 only.
bool is_bf16(const Record& record, const char* kind, Measurements& out) {
  const std::string type = record.text("dtype");
  if (type != "bf16") {
    add_dropped(out.dropped, kind, fmt::format("data type {}: only bf16 has tables", type));
  }
  return type == "bf16";
}

void read_device_record(const Record& record, Measurements& out) {
  const DeviceRecord device{record.text("name"), record.bytes("total"), record.bytes("l2"),
                            record.place};
  if (device.l2 >= device.total) {
    throw RecordError("l2", "'l2' must be smaller than 'total'");
  }
  const DeviceRecord& first = out.device;
  if (first.name.empty()) {
    out.device = device;
  } else if (first.name != device.name || first.total != device.total || first.l2 != device.l2) {
    throw RecordError("", "another device than on " + place_text(first.place),
                      "calibrate one machine at a time");
  }
}

void read_gemm(const Record& record, Measurements& out) {
  const Sample sample{{record.whole("n"), record.whole("m"), record.whole("k")},
                      0,
                      record.seconds("s"),
                      record.place};
  const double flops = product_flops(1, sample.shape);
  record.check_derived("tflops", flops / sample.seconds / 1e12, "s");
  if (is_bf16(record, "gemm", out)) {
    out.matmul.push_back(sample);
    out.matmul.back().work = flops;
  }
}

void read_batched_gemm(const Record& record, Measurements& out) {
  const std::int64_t groups = record.whole("b");
  const Shape each{record.whole("n"), record.whole("m"), record.whole("k")};
  const Sample sample{{groups, each[0], each[1], each[2]}, 0, record.seconds("s"), record.place};
  const double flops = product_flops(groups, each);
  record.check_derived("tflops", flops / sample.seconds / 1e12, "s");
  if (is_bf16(record, "batched_gemm", out)) {
    out.grouped_matmul.push_back(sample);
    out.grouped_matmul.back().work = flops;
  }
}

void read_attention(const Record& record, Measurements& out) {
  const std::int64_t head_dim = record.whole("head_dim", 4096);
  const Shape shape{record.whole("batch"),
                    record.whole("heads"),
                    record.whole("kv_heads"),
                    record.whole("seq"),
                    head_dim,
                    head_dim};
  if (shape[1] % shape[2] != 0) {
    throw RecordError("kv_heads", "'kv_heads' must divide 'heads'");
  }
  const double forward_s = record.seconds("fwd_s");
  const double both_s = record.seconds("fwd_bwd_s");
  if (!(both_s - forward_s >= 1e-9)) {
    throw RecordError("fwd_bwd_s", "'fwd_bwd_s' must be greater than 'fwd_s'");
  }
  const double forward = attention_flops(shape, Stage::forward);
  const double backward = attention_flops(shape, Stage::backward);
  record.check_derived("fwd_tflops", forward / forward_s / 1e12, "fwd_s");
  record.check_derived("bwd_tflops", backward / (both_s - forward_s) / 1e12, "fwd_bwd_s");
  if (!record.flag("causal")) {
    add_dropped(out.dropped, "attention", "not causal: tables count half of the square");
  } else if (is_bf16(record, "attention", out)) {
    out.attention_forward.push_back({shape, forward, forward_s, record.place});
    out.attention_backward.push_back({shape, backward, both_s - forward_s, record.place});
  }
}

void read_stream(const Record& record, Measurements& out) {
  const std::int64_t bytes = record.bytes("bytes_each_way");
  const double moved = 2 * static_cast<double>(bytes);
  const double seconds = record.seconds("s");
  record.check_derived("GBps", moved / seconds / 1e9, "s");
  out.stream.push_back({{bytes}, moved, seconds, record.place});
}

void read_copy(const Record& record, Measurements& out) {
  const std::int64_t bytes = record.bytes("bytes");
  const auto amount = static_cast<double>(bytes);
  const double d2h_s = record.seconds("d2h_s");
  const double h2d_s = record.seconds("h2d_s");
  record.check_derived("d2h_GBps", amount / d2h_s / 1e9, "d2h_s");
  record.check_derived("h2d_GBps", amount / h2d_s / 1e9, "h2d_s");
  if (record.has("both_s")) {
    const double both_s = record.seconds("both_s");
    record.check_derived("both_GBps_each", amount / both_s / 1e9, "both_s");
    out.duplex.push_back({{bytes}, 2 * amount, both_s, record.place});
  }
  out.d2h.push_back({{bytes}, amount, d2h_s, record.place});
  out.h2d.push_back({{bytes}, amount, h2d_s, record.place});
}

void read_launch(const Record& record, Measurements& out) {
  out.launch.push_back({{}, 0, record.seconds("s"), record.place});
}

void read_interference(const Record& record, Measurements& out) {
  static const std::array<std::string, 4> known{"none", "d2h", "h2d", "both"};
  InterferenceRecord result{
      record.text("work"), record.one_of("copies", known), record.seconds("s"), 0, 0, record.place};
  const bool both = result.copies == "both";
  result.d2h_rate = record.rate("d2h_GBps", !both && result.copies != "d2h");
  result.h2d_rate = record.rate("h2d_GBps", !both && result.copies != "h2d");
  out.interference.push_back(std::move(result));
}

void read_pin(const Record& /*record*/, Measurements& out) {
  add_dropped(out.dropped, "pin", "allocation of host memory is no part of a step");
}

BoardState board_of(const Record& record) {
  const BoardState board{record.positive("power_w", 1e5), record.positive("limit_w", 1e5),
                         record.positive("sm_clock_mhz", 1e5),
                         record.positive("max_sm_clock_mhz", 1e5)};
  if (board.clock > board.highest_clock) {
    throw RecordError("sm_clock_mhz", "'sm_clock_mhz' must not exceed 'max_sm_clock_mhz'");
  }
  return board;
}

Shape product_shape_of(const Record& record) {
  return {record.whole("n"), record.whole("m"), record.whole("k")};
}

double flop_rate_of(const Record& record) {
  return record.positive("tflops", 1e6) * 1e12;
}

void read_power(const Record& record, Measurements& out) {
  static const std::array<std::string, 10> known{
      "gemm",     "grouped_gemm", "attention_forward", "attention_backward",
      "hbm_copy", "hbm_add",      "hbm_zero",          "d2h",
      "h2d",      "idle"};
  constexpr std::ptrdiff_t with_flops = 4;
  PowerRecord result;
  result.work = record.one_of("work", known);
  result.board = board_of(record);
  result.place = record.place;
  if (std::find(known.begin(), known.end(), result.work) - known.begin() < with_flops) {
    result.rate = flop_rate_of(record);
  }
  if (result.work == "gemm") {
    result.shape = product_shape_of(record);
  }
  out.power.push_back(std::move(result));
}

void read_duty(const Record& record, Measurements& out) {
  static const std::array<std::string, 3> known{"d2h", "h2d", "hbm"};
  out.duty.push_back({record.one_of("filler", known), product_shape_of(record),
                      record.seconds("gemm_s"), record.seconds("filler_s"), flop_rate_of(record),
                      board_of(record), record.place});
}

void read_transient(const Record& /*record*/, Measurements& out) {
  add_dropped(out.dropped, "transient", "how fast the clock follows is no part of the rule");
}

struct KindReader {
  const char* name;
  void (*read)(const Record&, Measurements&);
};
constexpr std::array<KindReader, 12> kind_readers{{
    {"device", read_device_record},
    {"gemm", read_gemm},
    {"batched_gemm", read_batched_gemm},
    {"attention", read_attention},
    {"hbm_stream", read_stream},
    {"copy", read_copy},
    {"launch", read_launch},
    {"interference", read_interference},
    {"pin", read_pin},
    {"power", read_power},
    {"duty", read_duty},
    {"transient", read_transient},
}};

void read_record(const Record& record, Measurements& out) {
  const std::string kind = record.text("kind");
  std::vector<std::string> names;
  for (const KindReader& reader : kind_readers) {
    if (kind == reader.name) {
      reader.read(record, out);
      return;
    }
    names.emplace_back(reader.name);
  }
  throw RecordError("kind", fmt::format("unknown kind '{}'", kind), suggestion(kind, names));
}

// The column of a field's name in its line, 1 where it is not there.
int column_of(const std::string& line, const std::string& key) {
  const std::size_t at = key.empty() ? std::string::npos : line.find('"' + key + '"');
  return at == std::string::npos
             ? 1
             : static_cast<int>(count_columns(std::string_view(line).substr(0, at))) + 1;
}

Record parse_record(const std::string& line, const Place& place) {
  JsonLine parsed = parse_json_line(line);
  if (parsed.repeated) {
    throw RecordError(*parsed.repeated,
                      fmt::format("field {} is given twice", shown(*parsed.repeated)));
  }
  return {std::move(parsed.value), place};
}

// Symbolic links and other spellings are the same file.
void check_given_once(const std::vector<std::filesystem::path>& paths) {
  std::error_code error; // a file that cannot be opened is reported where it is read
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    const auto same = std::find_if(paths.begin(), path, [&](const std::filesystem::path& other) {
      return std::filesystem::equivalent(*path, other, error);
    });
    if (same != path) {
      throw InputError(fmt::format("'{}' is given twice", path->string()),
                       "each of its records would count twice");
    }
  }
}

void load_file(const std::filesystem::path& path, Measurements& out, Diagnostics& diagnostics) {
  const std::shared_ptr<const SourceText> source =
      make_source(read_file(path, most_json_lines_bytes), path.string(), most_json_lines_bytes);
  const std::size_t mistakes = diagnostics.count();
  const std::size_t before = out.records;
  for (std::size_t i = 0; i < source->lines.size(); ++i) {
    const std::string& line = source->lines[i];
    if (line.find_first_not_of(" \t") == std::string::npos) {
      continue;
    }
    Place place{source, static_cast<int>(i) + 1, 1};
    try {
      read_record(parse_record(line, place), out);
      ++out.records;
    } catch (const JsonLineError& error) {
      diagnostics.add(place, error.what());
    } catch (const RecordError& error) {
      place.column = column_of(line, error.key);
      diagnostics.add(place, error.what(), error.hint);
    }
  }
  if (out.records == before && diagnostics.count() == mistakes) {
    diagnostics.add({source, 0, 0}, "no records", "a file of JSON lines");
  }
  out.files.push_back(path.filename().string());
}

} // namespace

void add_dropped(std::vector<Dropped>& dropped, const std::string& kind, const std::string& reason,
                 std::size_t records) {
  const auto found = std::find_if(dropped.begin(), dropped.end(), [&](const Dropped& other) {
    return other.kind == kind && other.reason == reason;
  });
  if (found == dropped.end()) {
    dropped.push_back({kind, reason, records});
  } else {
    found->records += records;
  }
}

Measurements load_measurements(const std::vector<std::filesystem::path>& paths) {
  check_given_once(paths);
  Measurements measurements;
  Diagnostics diagnostics;
  for (const std::filesystem::path& path : paths) {
    load_file(path, measurements, diagnostics);
  }
  diagnostics.throw_if_any();
  if (measurements.device.name.empty()) {
    throw InputError("no record of kind 'device' in the measurements",
                     "it names the machine and says how large its memory and its L2 cache are");
  }
  return measurements;
}

} // namespace spillway
