#include "results/profiles.hpp"

#include "hw_models/calibration/json_line.hpp"
#include "results/text_table.hpp"
#include "sim/base/input_file.hpp"
#include "sim/base/source_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace spillway {
namespace {

using Json = nlohmann::json;

// The program's tensor names and MaxText's, for dense and for expert layers.
struct TensorName {
  const char* measured;
  const char* dense;
  const char* moe;
};
constexpr std::array<TensorName, 8> tensor_names{{
    {"layer_input", "decoder_layer_input", "decoder_layer_input"},
    {"q", "query_proj", "query_proj"},
    {"k", "key_proj", "key_proj"},
    {"v", "value_proj", "value_proj"},
    {"context", "context", "context"},
    {"attn_out", "out_proj", "out_proj"},
    {"mlp_gate", "mlpwi_0", "moe_mlpwi_0"},
    {"mlp_up", "mlpwi_1", "moe_mlpwi_1"},
}};

// A record's error, without its place.
class RecordError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& member(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) {
    throw RecordError(fmt::format("missing field '{}'", key));
  }
  return *found;
}

std::int64_t whole(const Json& json, const char* key, std::int64_t least, std::int64_t most) {
  const Json& value = member(json, key);
  if (!value.is_number_integer() || value < least || value > most) {
    throw RecordError(fmt::format("'{}' must be a whole number between {} and {}, not {}", key,
                                  least, most, shown(value)));
  }
  return value.get<std::int64_t>();
}

double real(const Json& json, const char* key) {
  const Json& value = member(json, key);
  if (!value.is_number() || !(value.get<double>() >= 0) || !(value.get<double>() < 1e18)) {
    throw RecordError(
        fmt::format("'{}' must be a number of at least 0, not {}", key, shown(value)));
  }
  return value.get<double>();
}

bool flag(const Json& json, const char* key) {
  const Json& value = member(json, key);
  if (!value.is_boolean()) {
    throw RecordError(fmt::format("'{}' must be true or false, not {}", key, shown(value)));
  }
  return value.get<bool>();
}

std::string text(const Json& json, const char* key) {
  const Json& value = member(json, key);
  if (!value.is_string()) {
    throw RecordError(fmt::format("'{}' must be text, not {}", key, shown(value)));
  }
  const auto name = value.get<std::string>();
  if (std::any_of(name.begin(), name.end(),
                  [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    throw RecordError(fmt::format("'{}' must not hold control characters", key));
  }
  return name;
}

void read_fates(const Json& json, const char* key, Fate fate, ProfileRecord& record) {
  const Json& list = member(json, key);
  if (!list.is_array()) {
    throw RecordError(fmt::format("'{}' must be a list of tensor names", key));
  }
  for (const Json& item : list) {
    const std::string name = item.is_string() ? item.get<std::string>() : shown(item);
    const auto found =
        std::find_if(tensor_names.begin(), tensor_names.end(),
                     [&](const TensorName& known) { return known.measured == name; });
    if (found == tensor_names.end()) {
      std::vector<std::string> known;
      known.reserve(tensor_names.size());
      for (const TensorName& tensor : tensor_names) {
        known.emplace_back(tensor.measured);
      }
      throw RecordError(
          fmt::format("unknown tensor '{}' in '{}'; {}", name, key, suggestion(name, known)));
    }
    const char* ours = record.model.experts > 0 ? found->moe : found->dense;
    if (!record.fates.emplace(ours, fate).second) {
      throw RecordError(fmt::format("'{}' is both saved and offloaded, or named twice", name));
    }
  }
}

ModelSpec read_arch(const Json& arch, const std::string& name) {
  if (!arch.is_object()) {
    throw RecordError("'arch' must be an object");
  }
  constexpr std::int64_t most = 10'000'000;
  ModelSpec model;
  model.name = model.title = name;
  model.hidden = whole(arch, "d", 1, most);
  model.layers = whole(arch, "layers", 1, 1000);
  model.vocabulary = whole(arch, "vocab", 1, most);
  model.attention.heads = whole(arch, "hq", 1, 4096);
  model.attention.kv_heads = whole(arch, "hkv", 1, model.attention.heads);
  model.attention.head_dim = whole(arch, "hd", 1, 4096);
  model.experts = whole(arch, "experts", 0, 4096);
  if (model.experts > 0) {
    model.experts_per_token = whole(arch, "topk", 1, model.experts);
    model.expert.width = whole(arch, "ff", 1, most);
  } else {
    model.dense_layers = model.layers;
    model.dense.width = whole(arch, "ff", 1, most);
  }
  if (model.attention.heads % model.attention.kv_heads != 0) {
    throw RecordError("'hkv' must divide 'hq'");
  }
  return model;
}

// What the fields say together: possible, and small enough for 64 bits.
void check_record(const ProfileRecord& record) {
  const ModelSpec& m = record.model;
  const double tokens =
      static_cast<double>(record.batch.micro) * static_cast<double>(record.batch.sequence);
  const double widest = static_cast<double>(
      std::max({m.vocabulary, m.dense.width, std::max<std::int64_t>(1, m.experts) * m.expert.width,
                m.attention.heads * m.attention.head_dim, m.hidden}));
  if (tokens * widest > 1e14 || widest * static_cast<double>(m.hidden * m.layers) > 1e14) {
    throw RecordError("these sizes are too large to simulate");
  }
  if (record.keeps_everything && record.offloads) {
    throw RecordError("'saved: null' keeps everything, so 'offloaded' must be empty");
  }
  if (!routes_evenly(m, {}, record.batch)) {
    throw RecordError("the routed rows cannot be divided evenly over the experts");
  }
  if (!(record.step_s > 0) || !(record.peak_bytes > 0)) {
    throw RecordError("'step_s' and 'peak_bytes' must be greater than 0");
  }
}

std::string switches_text(const ProfileRecord& record) {
  return fmt::format(
      "{}{}{}{}", record.command_buffers ? "" : " streams",
      record.pipelined_host_offloading ? "" : " unrotated",
      record.latency_hiding_scheduler ? "" : " no-lhs",
      record.async_compute_limit == 8 ? "" : fmt::format(" limit-{}", record.async_compute_limit));
}

ProfileRecord read_record(const Json& json) {
  if (!json.is_object()) {
    throw RecordError("a record must be a JSON object");
  }
  ProfileRecord record;
  const std::string name = text(json, "model");
  record.policy = text(json, "policy");
  record.model = read_arch(member(json, "arch"), name);
  record.batch.micro = whole(json, "batch", 1, 65'536);
  record.batch.sequence = whole(json, "seq", 1, 16'777'216);
  record.keeps_everything = member(json, "saved").is_null();
  if (!record.keeps_everything) {
    read_fates(json, "saved", Fate::keep, record);
  }
  read_fates(json, "offloaded", Fate::offload, record);
  record.offloads = !member(json, "offloaded").empty();
  record.latency_hiding_scheduler = flag(json, "latency_hiding_scheduler");
  record.pipelined_host_offloading = flag(json, "pipelined_host_offloading");
  record.command_buffers = flag(json, "command_buffers");
  record.async_compute_limit = whole(json, "async_compute_limit", 1, 1024);
  record.step_s = real(json, "step_s");
  record.peak_bytes = real(json, "peak_bytes");
  record.temp_bytes = real(json, "temp_bytes");
  record.host_temp_bytes = real(json, "host_temp_bytes");
  record.id = fmt::format("{} b{} s{} {}{}", name, record.batch.micro, record.batch.sequence,
                          record.policy, switches_text(record));
  check_record(record);
  return record;
}

ProfileRecord read_line(const std::string& line) {
  const JsonLine parsed = parse_json_line(line);
  if (parsed.repeated) {
    throw RecordError(fmt::format("field {} is given twice", shown(*parsed.repeated)));
  }
  return read_record(parsed.value);
}

CaseResult compared(const std::string& id, Metric metric, double observed, double predicted,
                    double tolerance) {
  CaseResult result;
  result.given.id = id;
  result.given.metric = metric;
  result.given.observed = observed;
  result.given.tolerance_percent = tolerance;
  result.predicted = predicted;
  // Nothing predicted where nothing was measured is right.
  result.error_percent =
      observed == 0 ? (predicted == 0 ? 0.0 : 100.0) : 100 * (predicted / observed - 1);
  result.pass = std::abs(result.error_percent) <= tolerance;
  return result;
}

struct Errors {
  std::size_t n = 0;
  double sum = 0, worst = 0, bias = 0;
  void add(double error) {
    ++n;
    sum += std::abs(error);
    bias += error;
    worst = std::max(worst, std::abs(error));
  }
};

} // namespace

std::vector<ProfileRecord> load_profiles(const std::filesystem::path& path) {
  const std::shared_ptr<const SourceText> source =
      make_source(read_file(path, most_json_lines_bytes), path.string(), most_json_lines_bytes);
  std::vector<ProfileRecord> records;
  std::map<std::string, int> times_measured;
  Diagnostics diagnostics;
  for (std::size_t i = 0; i < source->lines.size(); ++i) {
    const std::string& line = source->lines[i];
    if (line.find_first_not_of(" \t") == std::string::npos) {
      continue;
    }
    try {
      ProfileRecord record = read_line(line);
      if (const int times = ++times_measured[record.id]; times > 1) {
        record.id += fmt::format(" #{}", times);
      }
      records.push_back(std::move(record));
    } catch (const JsonLineError& error) {
      diagnostics.add({source, static_cast<int>(i) + 1, 1}, error.what());
    } catch (const RecordError& error) {
      diagnostics.add({source, static_cast<int>(i) + 1, 1}, error.what());
    }
  }
  if (records.empty() && diagnostics.empty()) {
    diagnostics.add({source, 0, 0}, "no records", "a file of JSON lines");
  }
  diagnostics.throw_if_any();
  return records;
}

std::string profile_class(const ProfileRecord& record) {
  return !record.offloads ? "no offload" : record.command_buffers ? "serialized" : "overlapped";
}

std::string profile_group(const ProfileRecord& record) {
  return fmt::format("{} b{} s{}{}", record.model.name, record.batch.micro, record.batch.sequence,
                     switches_text(record));
}

bool same_group(const ProfileRecord& a, const ProfileRecord& b) {
  const auto sizes = [](const ModelSpec& m) {
    return std::tie(m.name, m.hidden, m.layers, m.vocabulary, m.attention.heads,
                    m.attention.kv_heads, m.attention.head_dim, m.experts, m.experts_per_token,
                    m.dense.width, m.expert.width);
  };
  const auto rest = [](const ProfileRecord& r) {
    return std::tie(r.batch.micro, r.batch.sequence, r.command_buffers, r.pipelined_host_offloading,
                    r.latency_hiding_scheduler, r.async_compute_limit);
  };
  return sizes(a.model) == sizes(b.model) && rest(a) == rest(b);
}

Scenario profile_scenario(const ProfileRecord& record, const Device& device,
                          const FrameworkSpec& framework) {
  Scenario scenario;
  scenario.name = record.id;
  scenario.model = record.model;
  scenario.device = device;
  scenario.framework = framework;
  scenario.batch = record.batch;
  scenario.runtime.schedule = record.command_buffers             ? CopySchedule::serialized
                              : record.pipelined_host_offloading ? CopySchedule::pipelined
                                                                 : CopySchedule::loop_bound;
  scenario.runtime.rotated = record.pipelined_host_offloading;
  scenario.runtime.async_compute_limit = record.async_compute_limit;
  scenario.trace = build_trace(scenario.model, scenario.parallel, scenario.batch,
                               scenario.framework, scenario.precision.compute);
  PolicySpec policy;
  policy.name = record.policy;
  policy.preset = record.keeps_everything ? Preset::none : Preset::full;
  policy.tensors = record.fates;
  scenario.policies.push_back(std::move(policy));
  return scenario;
}

std::vector<ProfileResult> check_profiles(const std::vector<ProfileRecord>& records,
                                          const Device& device, const FrameworkSpec& framework) {
  constexpr double step_tolerance = 5, peak_tolerance = 2.5, temp_tolerance = 10;
  std::vector<ProfileResult> results;
  RateCache cache;
  for (const ProfileRecord& record : records) {
    const Scenario scenario = profile_scenario(record, device, framework);
    const Simulation run = simulate(scenario, scenario.policies.front(), cache);
    const double peak = allocated_bytes(run.result); // the compiler knows no context
    ProfileResult result;
    result.profile_class = profile_class(record);
    result.metrics = {
        compared(record.id, Metric::step_time, record.step_s, run.result.step_time_s,
                 step_tolerance),
        compared(record.id, Metric::peak_hbm, record.peak_bytes, peak, peak_tolerance),
        compared(record.id, Metric::temp, record.temp_bytes, temporary_bytes(run.result),
                 temp_tolerance),
        compared(record.id, Metric::host, record.host_temp_bytes,
                 static_cast<double>(run.result.peak_host_bytes), 0)};
    results.push_back(std::move(result));
  }
  return results;
}

PairOrder policy_order(const std::vector<ProfileRecord>& records,
                       const std::vector<ProfileResult>& results, double apart_percent) {
  const auto comparable = [](const ProfileRecord& a, const ProfileRecord& b) {
    return same_group(a, b) && a.policy != b.policy;
  };
  PairOrder order;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (std::size_t j = i + 1; j < records.size(); ++j) {
      const double measured = records[i].step_s - records[j].step_s;
      const double least = std::min(records[i].step_s, records[j].step_s);
      if (comparable(records[i], records[j]) && std::abs(measured) > apart_percent / 100 * least) {
        const double predicted = results[i].metrics[0].predicted - results[j].metrics[0].predicted;
        ++order.pairs;
        order.right += measured * predicted > 0 ? 1 : 0;
      }
    }
  }
  return order;
}

bool passes(const ProfileResult& result) {
  return std::all_of(result.metrics.begin(), result.metrics.end(),
                     [](const CaseResult& metric) { return metric.pass; });
}

std::string profiles_text(const std::vector<ProfileResult>& results, const PairOrder& order) {
  TextTable table;
  table.add({"record", "class", "step", "predicted", "error", "peak HBM", "error", "temp error",
             "host error", ""});
  table.left_columns = 2;
  table.add_rule();
  std::size_t within = 0;
  std::map<std::string, std::map<std::string, Errors>> errors; // by class, by metric
  for (const ProfileResult& result : results) {
    const auto percent = [&](std::size_t metric) {
      return fmt::format("{:+.1f} %", result.metrics[metric].error_percent);
    };
    const CaseResult& step = result.metrics[0];
    table.add({step.given.id, result.profile_class, format_seconds(step.given.observed),
               format_seconds(step.predicted), percent(0),
               format_bytes(result.metrics[1].given.observed), percent(1), percent(2), percent(3),
               passes(result) ? "ok" : "MISS"});
    within += passes(result) ? std::size_t{1} : 0;
    for (const CaseResult& metric : result.metrics) {
      for (const std::string& group : {result.profile_class, std::string("all")}) {
        errors[group][metric_name(metric.given.metric)].add(metric.error_percent);
      }
    }
  }
  std::string text = table.render();
  if (!results.empty()) {
    const std::vector<CaseResult>& metrics = results.front().metrics;
    text += fmt::format("\n{} of {} records within tolerance: step time {:g} %, peak HBM {:g} %, "
                        "temporaries {:g} %, host {:g} %\n",
                        within, results.size(), metrics[0].given.tolerance_percent,
                        metrics[1].given.tolerance_percent, metrics[2].given.tolerance_percent,
                        metrics[3].given.tolerance_percent);
  }
  text += "\n";
  TextTable summary;
  summary.left_columns = 2;
  summary.add({"absolute error", "metric", "records", "mean", "worst", "bias"});
  summary.add_rule();
  for (const char* group : {"no offload", "serialized", "overlapped", "all"}) {
    for (const char* metric : {"step_time", "peak_hbm", "temp", "host"}) {
      const Errors& e = errors[group][metric];
      if (e.n > 0) {
        const auto n = static_cast<double>(e.n);
        summary.add({group, metric, fmt::format("{}", e.n), fmt::format("{:.2f} %", e.sum / n),
                     fmt::format("{:.2f} %", e.worst), fmt::format("{:+.2f} %", e.bias / n)});
      }
    }
  }
  text += summary.render();
  return text + fmt::format("\nof {} pairs of policies that differ by more than {:g} %, {} are "
                            "ordered as measured\n",
                            order.pairs, timing_noise_percent, order.right);
}

std::string profiles_json(const std::vector<ProfileResult>& results, const PolicyChoices& choices) {
  std::vector<CaseResult> all;
  for (const ProfileResult& result : results) {
    all.insert(all.end(), result.metrics.begin(), result.metrics.end());
  }
  auto json = nlohmann::ordered_json::parse(validation_json(all));
  json["choices"] = nlohmann::ordered_json::array();
  for (const PolicyChoice& choice : choices.choices) {
    json["choices"].push_back(
        {{"group", choice.group},
         {"limit_bytes", choice.limit_bytes},
         {"chosen", choice.chosen.empty() ? Json() : Json(choice.chosen)},
         {"fastest", choice.fastest},
         {"regret_percent", choice.fits ? Json(choice.regret_percent) : Json()},
         {"fits", choice.fits}});
  }
  return json.dump(2) + '\n';
}

} // namespace spillway
