// Looking things up: `catalog` and `fields`.
#include "results/text_table.hpp"
#include "results/trace_format.hpp"
#include "results/write.hpp"
#include "sim/cli/commands.hpp"
#include "sim/cli/options.hpp"
#include "workloads/model_counts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace spillway {
namespace {

std::string list_text(const Catalog& catalog) {
  std::string text;
  for (std::size_t k = 0; k < catalog_kind_count; ++k) {
    const auto kind = static_cast<CatalogKind>(k);
    text += fmt::format("{}{}\n", k == 0 ? "" : "\n", catalog_kind_name(kind));
    TextTable table;
    table.left_columns = 2;
    for (const std::string& name : catalog.names(kind)) {
      const YamlNode node = catalog.load_file(kind, catalog.find(kind, name));
      const YamlNode* title = node.find("title");
      table.add({name, title == nullptr ? "" : title->text});
    }
    text += table.render("  ");
  }
  return text + "\n`spillway catalog NAME` shows one with its numbers and sources.\n";
}

std::string hardware_text(const Device& device) {
  std::string text = fmt::format("hardware {}: {}\n\n", device.name, device.title);
  TextTable table;
  table.left_columns = 1;
  table.add({"coefficient", "value", "low", "high", "kind"});
  table.add_rule();
  for (const Coefficient* c : device.coefficients()) {
    table.add({c->path, format_coefficient(*c, c->value),
               c->has_range() ? format_coefficient(*c, c->low) : "-",
               c->has_range() ? format_coefficient(*c, c->high) : "-", c->kind});
  }
  text += table.render("  ");
  text += "\n  sources\n";
  for (const Coefficient* c : device.coefficients()) {
    text += fmt::format("    {}: {}\n", c->path, c->source);
    text += c->note.empty() ? "" : fmt::format("      {}\n", c->note);
  }
  text += "\n  kernel tables\n";
  for (const auto& kernels : device.tables) {
    text += fmt::format("    {} ({}): {}\n", kernels->device, kernels->kind, kernels->source);
    for (const std::size_t factor : kernels->rate_factors) {
      const Coefficient& c = device.rate_factors[factor];
      text += fmt::format("      rates times {} {}\n", c.path, format_coefficient(c, c.value));
    }
  }
  return text;
}

// "70.554 billion; published 70.6 billion", and "0.4 million" of a router.
std::string parameters_text(std::int64_t count, const std::optional<PublishedCount>& published) {
  const auto parameters = static_cast<double>(count);
  std::string text = parameters < 1e8 ? fmt::format("{:.3f} million", parameters / 1e6)
                                      : fmt::format("{:.3f} billion", parameters / 1e9);
  if (published) {
    text += fmt::format("; published {:.6g} billion", published->value / 1e9);
  }
  return text;
}

std::string gflop_text(Flops flops) {
  return fmt::format("{:.3f} GFLOP", flops.value() / 1e9);
}

// Not everyone counts alike: ours by the rule of the published one stands beside it.
void add_published_flops(TextTable& table, const ModelSpec& model,
                         const PublishedFlops& published) {
  std::string rule;
  rule += published.convention.counts_router ? "" : ", without the router";
  rule += published.convention.full_attention ? ", attention over whole squares" : "";
  const Flops ours = flops_per_token(model, published.sequence, published.convention).total();
  table.add({fmt::format("  at {} as published{}", published.sequence, rule),
             fmt::format("{}; published {:.6g} GFLOP", gflop_text(ours),
                         published.per_token.value / 1e9)});
}

std::string layers_text(const ModelSpec& model) {
  std::string text = model.experts > 0 ? fmt::format("{} dense, {} with experts",
                                                     model.dense_layers, model.moe_layers())
                                       : fmt::format("{}", model.layers);
  if (model.windowed_layers() > 0) {
    text += fmt::format("; {} of all see a window of {} tokens", model.windowed_layers(),
                        model.attention.window);
  }
  return text;
}

std::string published_sources(const ModelSpec& model) {
  std::string text;
  const auto add = [&](const char* what, const PublishedCount& count) {
    text += fmt::format("  published {}: {}\n", what, count.source);
  };
  if (model.published_parameters) {
    add("parameters", *model.published_parameters);
  }
  if (model.published_active_parameters) {
    add("active parameters", *model.published_active_parameters);
  }
  if (model.published_flops) {
    add("FLOPs per token", model.published_flops->per_token);
  }
  return text;
}

std::string model_text(const ModelSpec& model) {
  const ParameterCount count = count_parameters(model);
  TextTable table;
  table.last_column_left = true;
  const auto add = [&](const char* what, std::int64_t parameters,
                       const std::optional<PublishedCount>& published = {}) {
    table.add({what, parameters_text(parameters, published)});
  };
  add("parameters", count.total, model.published_parameters);
  if (model.experts > 0) {
    add("  active for a token", count.active, model.published_active_parameters);
  }
  add("  attention, a layer", count.attention);
  if (model.dense_layers > 0) {
    add("  dense feed-forward, a layer", count.dense_ffn);
  }
  if (model.experts > 0) {
    add("  routed experts, a layer", count.routed_experts);
    add(model.shared_experts > 0 ? "  shared expert and router, a layer" : "  router, a layer",
        count.shared_and_router);
  }
  add(model.tied_embeddings ? "  embedding, and head in one" : "  embedding, and head the same",
      count.embedding);
  table.add({"layers", layers_text(model)});
  for (const std::int64_t sequence : {2048, 4096, 8192}) {
    table.add({fmt::format("model FLOPs per token at {}", sequence),
               gflop_text(flops_per_token(model, sequence).total())});
  }
  if (model.published_flops) {
    add_published_flops(table, model, *model.published_flops);
  }
  return fmt::format("model {}: {}\n\n{}\n  source: {}\n", model.name, model.title,
                     table.render("  "), model.source) +
         published_sources(model);
}

std::string presets_text(const FrameworkSpec& framework) {
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  table.add({"preset", "fate", "tensors; everything else is recomputed"});
  table.add_rule();
  for (const PresetSpec& preset : framework.presets) {
    for (const auto& [fate, names] :
         {std::pair("keep", preset.keep), std::pair("offload", preset.offload)}) {
      if (!names.empty()) {
        table.add({preset.name, fate, fmt::format("{}", fmt::join(names, ", "))});
      }
    }
  }
  return framework.presets.empty() ? "" : "\n" + table.render("  ");
}

std::string framework_text(const FrameworkSpec& framework) {
  TextTable table;
  table.last_column_left = true;
  table.add({"number", "value", "kind", "source"});
  table.add_rule();
  for (const NamedNumber& number : framework_numbers()) {
    const SourcedNumber& value = framework.*number.member;
    table.add({number.key,
               &value == &framework.step_gap ? format_seconds(value.value)
                                             : fmt::format("{:g}", value.value),
               value.kind, value.source});
  }
  return fmt::format("framework {}: {}\n\n", framework.name, framework.title) + table.render("  ") +
         presets_text(framework);
}

std::string trace_format_text(const TraceFormat& format) {
  TextTable table;
  table.last_column_left = true;
  table.add({"class", "events, the first match decides"});
  table.add_rule();
  for (const TraceRule& rule : format.rules) {
    table.add({rule.ignored ? "ignore" : activity_class_name(rule.kind),
               (rule.category ? fmt::format("of category '{}':  ", *rule.category) : "") +
                   fmt::format("{}", fmt::join(rule.patterns, "  "))});
  }
  return fmt::format("trace_format {}: {}\n  a step begins with '{}' of process '{}'\n"
                     "  device tracks are '{}' of process '{}'\n\n",
                     format.name, format.title, format.step_event, format.step_process,
                     format.device_track, format.device_process) +
         table.render("  ") + fmt::format("\n  source: {}\n", format.source);
}

std::string entry_text(const Catalog& catalog, const std::string& name) {
  std::vector<std::string> all;
  for (std::size_t k = 0; k < catalog_kind_count; ++k) {
    const auto kind = static_cast<CatalogKind>(k);
    const std::vector<std::string> names = catalog.names(kind);
    all.insert(all.end(), names.begin(), names.end());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      continue;
    }
    const YamlNode node = catalog.load_file(kind, catalog.find(kind, name));
    Diagnostics diagnostics;
    std::string text;
    switch (kind) {
    case CatalogKind::model: text = model_text(read_model(node, diagnostics)); break;
    case CatalogKind::hardware:
      text = hardware_text(read_device(node, catalog.table_folder(), diagnostics));
      break;
    case CatalogKind::framework: text = framework_text(read_framework(node, diagnostics)); break;
    case CatalogKind::trace_format:
      text = trace_format_text(read_trace_format(node, diagnostics));
      break;
    case CatalogKind::scenario: {
      const Scenario scenario = read_scenario(catalog, node, name);
      text = fmt::format("scenario {}: {}\n  model {}, hardware {}, {} GPUs, framework {}\n", name,
                         scenario.title, scenario.model.name, scenario.device.name,
                         scenario.parallel.gpus, scenario.framework.name);
      for (const PolicySpec& policy : scenario.policies) {
        text += fmt::format("  policy {}\n", policy.name);
      }
      for (const Assumption& assumption : scenario.assumed) {
        text += fmt::format("  assumed {}: {}\n", assumption.what, assumption.why);
      }
      break;
    }
    }
    diagnostics.throw_if_any();
    return text;
  }
  throw InputError(fmt::format("nothing in the catalogue is named '{}'", name),
                   suggestion(name, all));
}

} // namespace

ExitCode run_catalog(const CommonOptions& options) {
  const Catalog catalog(data_roots(options.catalog));
  write_output("-", options.positional.empty() ? list_text(catalog)
                                               : entry_text(catalog, options.positional.front()));
  return ExitCode::done;
}

ExitCode run_fields(const CommonOptions& /*options*/) {
  TextTable table;
  table.left_columns = 3;
  table.add({"field", "unit", "meaning"});
  table.add_rule();
  for (const Field& field : field_table()) {
    table.add({field.name, field.unit, field.meaning});
  }
  write_output("-", table.render());
  return ExitCode::done;
}

} // namespace spillway
