// The answer to a question as text, CSV and JSON.
#include "results/inference.hpp"
#include "results/report_text.hpp"
#include "results/text_table.hpp"
#include "results/write.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace spillway {
namespace {

std::vector<const Setting*> agreeing(const Inference& inference) {
  std::vector<const Setting*> found;
  for (const Setting& setting : inference.settings) {
    if (!setting.contradicts) {
      found.push_back(&setting);
    }
  }
  return found;
}

std::string settings_text(const Question::Settings& settings) {
  return settings.empty() ? "" : fmt::format(" with {}", fmt::join(settings, ", "));
}

std::string facts_text(const Question& question, const Inference& inference) {
  std::vector<std::size_t> contradict(question.facts.size(), 0);
  for (const Setting& setting : inference.settings) {
    if (setting.contradicts) {
      ++contradict[*setting.contradicts];
    }
  }
  TextTable table;
  table.left_columns = 2;
  table.last_column_left = true;
  table.add({"fact", "policy", "contradict it", "the source says"});
  table.add_rule();
  for (std::size_t f = 0; f < question.facts.size(); ++f) {
    const Question::Fact& fact = question.facts[f];
    table.add({fmt::format("{}. {}", f + 1, verdict_name(fact.verdict)),
               fmt::format("{} the set{}", fate_name(fact.fate), settings_text(fact.set)),
               fmt::format("{}", contradict[f]), fact.says});
  }
  return table.render("  ") + "  (each setting counts at the first fact that it contradicts)\n";
}

// How many settings that agree have a value, for all values that any has.
std::string values_text(const Question& question, const std::vector<const Setting*>& found) {
  TextTable table;
  table.last_column_left = true;
  table.add({"varied", "values of settings that agree with all facts, and how many they are"});
  table.add_rule();
  const auto row = [&](const std::string& name, const std::vector<std::string>& labels,
                       const auto& has) {
    std::string text;
    for (std::size_t v = 0; v < labels.size(); ++v) {
      const auto count = std::count_if(found.begin(), found.end(),
                                       [&](const Setting* setting) { return has(*setting, v); });
      text += fmt::format("{}{}: {}", text.empty() ? "" : ",  ", labels[v], count);
    }
    table.add({name, text});
  };
  for (std::size_t d = 0; d < question.dimensions.size(); ++d) {
    std::vector<std::string> labels;
    for (const Question::Value& value : question.dimensions[d].values) {
      labels.push_back(value.label);
    }
    row(question.dimensions[d].name, labels, [&](const Setting& setting, std::size_t v) {
      return question.values_of(setting.combination)[d] == v;
    });
  }
  row("tensors in the set", question.tensors,
      [](const Setting& setting, std::size_t v) { return ((setting.set + 1) >> v & 1U) != 0; });
  return table.render("  ");
}

std::string label_of(const Question& question, const Setting& setting, std::size_t dimension) {
  return question.dimensions[dimension]
      .values[question.values_of(setting.combination)[dimension]]
      .label;
}

std::string rows_text(const Question& question, std::vector<const Setting*> found,
                      std::size_t top) {
  std::stable_sort(found.begin(), found.end(), [](const Setting* a, const Setting* b) {
    return a->predicted.speedup > b->predicted.speedup;
  });
  TextTable table;
  table.last_column_left = true;
  std::vector<std::string> head;
  for (const Question::Dimension& dimension : question.dimensions) {
    head.push_back(dimension.name);
  }
  for (const char* name : {"base TFLOP/s", "offload TFLOP/s", "speed-up", "hidden", "peak HBM",
                           "pinned", "offloaded"}) {
    head.emplace_back(name);
  }
  table.add(head);
  table.add_rule();
  for (std::size_t i = 0; i < std::min(top, found.size()); ++i) {
    const Predicted& p = found[i]->predicted;
    std::vector<std::string> cells;
    for (std::size_t d = 0; d < question.dimensions.size(); ++d) {
      cells.push_back(label_of(question, *found[i], d));
    }
    cells.push_back(fmt::format("{:.1f}{}", p.base_tflops,
                                p.base_verdict == Verdict::fits ? "" : " (does not fit)"));
    cells.push_back(fmt::format("{:.1f}", p.tflops));
    cells.push_back(fmt::format("{:.3f}", p.speedup));
    cells.push_back(fmt::format("{:.0f} %", 100 * p.hidden));
    cells.push_back(format_bytes(static_cast<double>(p.peak_hbm_bytes)));
    cells.push_back(format_bytes(static_cast<double>(p.peak_host_bytes)));
    cells.push_back(fmt::format("{}", fmt::join(question.tensors_of(found[i]->set), ", ")));
    table.add(cells);
  }
  const std::string more =
      found.size() > top
          ? fmt::format(
                "  (largest speed-up first; {} more: --top {} shows all, --csv FILE writes them)\n",
                found.size() - top, found.size())
          : "";
  return table.render("  ") + more;
}

std::string range_text(const std::vector<const Setting*>& found) {
  const auto by = [&](double Predicted::*field) {
    const auto [low, high] =
        std::minmax_element(found.begin(), found.end(), [&](const Setting* a, const Setting* b) {
          return a->predicted.*field < b->predicted.*field;
        });
    return std::pair((*low)->predicted.*field, (*high)->predicted.*field);
  };
  const auto [base_low, base_high] = by(&Predicted::base_tflops);
  const auto [low, high] = by(&Predicted::tflops);
  const auto [slow, fast] = by(&Predicted::speedup);
  return fmt::format("They predict {:.1f} .. {:.1f} TFLOP/s per GPU for the base, {:.1f} .. {:.1f} "
                     "for the offload, a speed-up of {:.3f} .. {:.3f}.\n",
                     base_low, base_high, low, high, slow, fast);
}

std::string impossible_text(const Question& question, const Inference& inference) {
  if (inference.impossible.empty()) {
    return "";
  }
  return fmt::format("{} of {} combinations are not possible at all, the first because: {}\n",
                     inference.impossible.size(), question.combinations(),
                     inference.impossible.front().why);
}

} // namespace

std::string inference_text(const Question& question, const Inference& inference, std::size_t top) {
  const std::vector<const Setting*> found = agreeing(inference);
  std::string text = fmt::format("{}\nsource: {}\n\n", question.title, question.source);
  text += facts_text(question, inference) + "\n" + impossible_text(question, inference);
  text += fmt::format("{} of {} settings agree with all facts.\n", found.size(),
                      inference.settings.size());
  if (found.empty()) {
    return text;
  }
  return text + range_text(found) + "\n" + values_text(question, found) + "\n" +
         rows_text(question, found, top);
}

std::string inference_csv(const Question& question, const Inference& inference) {
  std::string text;
  for (const Question::Dimension& dimension : question.dimensions) {
    text += csv_cell(dimension.name) + ",";
  }
  text += "tensors,base_verdict,base_tflops_per_gpu,tflops_per_gpu,speedup,offload_hidden_fraction,"
          "peak_hbm_bytes,peak_host_bytes\n";
  for (const Setting* setting : agreeing(inference)) {
    for (std::size_t d = 0; d < question.dimensions.size(); ++d) {
      text += csv_cell(label_of(question, *setting, d)) + ",";
    }
    const Predicted& p = setting->predicted;
    text +=
        fmt::format("{},{},{},{},{},{},{},{}\n", fmt::join(question.tensors_of(setting->set), " "),
                    verdict_name(p.base_verdict), p.base_tflops, p.tflops, p.speedup, p.hidden,
                    p.peak_hbm_bytes, p.peak_host_bytes);
  }
  return text;
}

std::string inference_json(const Question& question, const Inference& inference) {
  nlohmann::ordered_json json;
  json["title"] = question.title;
  json["settings"] = inference.settings.size();
  json["impossible"] = nlohmann::ordered_json::array();
  for (const Impossible& impossible : inference.impossible) {
    json["impossible"].push_back(
        {{"combination", impossible.combination}, {"why", impossible.why}});
  }
  json["agree"] = nlohmann::ordered_json::array();
  for (const Setting* setting : agreeing(inference)) {
    nlohmann::ordered_json one;
    for (std::size_t d = 0; d < question.dimensions.size(); ++d) {
      one["values"][question.dimensions[d].name] = label_of(question, *setting, d);
    }
    const Predicted& p = setting->predicted;
    one["tensors"] = question.tensors_of(setting->set);
    one["base_verdict"] = verdict_name(p.base_verdict);
    one["base_tflops_per_gpu"] = p.base_tflops;
    one["tflops_per_gpu"] = p.tflops;
    one["speedup"] = p.speedup;
    one["offload_hidden_fraction"] = p.hidden;
    one["peak_hbm_bytes"] = p.peak_hbm_bytes;
    one["peak_host_bytes"] = p.peak_host_bytes;
    json["agree"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

} // namespace spillway
