#include "policies/save_cut.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>

namespace spillway {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Pipe {
  std::int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};
using Network =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Pipe>;

constexpr std::size_t source = 0;
constexpr std::size_t sink = 1;

void connect(Network& network, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto edge = add_edge(from, to, Pipe{capacity, 0, {}}, network).first;
  const auto back = add_edge(to, from, Pipe{0, 0, edge}, network).first;
  network[edge].reverse = back;
}

// By vertex, of the minimum cut that has fewest on this side.
std::vector<bool> source_side(const Network& network) {
  std::vector<bool> reached(num_vertices(network), false);
  std::vector<std::size_t> open{source};
  reached[source] = true;
  while (!open.empty()) {
    const std::size_t from = open.back();
    open.pop_back();
    for (auto [edge, end] = out_edges(from, network); edge != end; ++edge) {
      const std::size_t to = target(*edge, network);
      if (network[*edge].residual > 0 && !reached[to]) {
        reached[to] = true;
        open.push_back(to);
      }
    }
  }
  return reached;
}

// Whole picoseconds; nothing for what is infinite.
std::optional<std::int64_t> picoseconds(double seconds) {
  constexpr double most = 1000;
  if (std::isinf(seconds) && seconds > 0) {
    return std::nullopt;
  }
  if (!(seconds >= 0 && seconds <= most)) {
    throw std::invalid_argument("seconds of a cut are between 0 and 1000");
  }
  return std::llround(seconds * 1e12);
}

class SaveCut {
public:
  SaveCut(const LayerKind& kind, const SaveCosts& costs);
  [[nodiscard]] SaveChoice solve();

private:
  struct Cut {
    std::int64_t cost = 0;
    std::vector<OpIndex> rerun;
    std::vector<std::size_t> groups;
  };
  void find_spread_groups();
  [[nodiscard]] bool savable(TensorIndex t) const {
    return group_of_[t] != SaveCosts::no_group && prices_[group_of_[t]].has_value();
  }
  // `saved`: bit i says whether spread group i is.
  [[nodiscard]] Cut cut(std::uint32_t saved) const;
  void add_layer(Network& network) const;
  void add_savings(Network& network, std::uint32_t saved) const;
  [[nodiscard]] std::size_t op_vertex(OpIndex op) const { return 2 + op; }
  [[nodiscard]] std::size_t tensor_vertex(TensorIndex t) const { return 2 + rerun_.size() + t; }
  [[nodiscard]] std::size_t group_vertex(std::size_t group) const {
    return 2 + rerun_.size() + group_of_.size() + group;
  }

  const LayerKind& kind_;
  std::vector<std::int64_t> rerun_;                 // by operation
  std::vector<std::size_t> group_of_;               // by tensor
  std::vector<std::optional<std::int64_t>> prices_; // by group
  std::vector<std::optional<OpIndex>> producers_;   // by group, of those with exactly one
  std::vector<std::size_t> spread_;
  std::int64_t uncut_ = 1; // more than everything together
};

SaveCut::SaveCut(const LayerKind& kind, const SaveCosts& costs)
    : kind_(kind), group_of_(costs.group_of) {
  for (const double seconds : costs.rerun_s) {
    const std::optional<std::int64_t> cost = picoseconds(seconds);
    if (!cost) {
      throw std::invalid_argument("an operation of a cut takes forever");
    }
    rerun_.push_back(*cost);
    uncut_ += *cost;
  }
  for (const double seconds : costs.price_s) {
    prices_.push_back(picoseconds(seconds));
    uncut_ += prices_.back().value_or(0);
  }
  const auto tensors = static_cast<std::int64_t>(group_of_.size());
  if (uncut_ > std::numeric_limits<std::int64_t>::max() / (2 * tensors)) {
    throw std::invalid_argument("costs of a cut are more than picoseconds can count");
  }
  find_spread_groups();
}

void SaveCut::find_spread_groups() {
  std::vector<std::set<OpIndex>> producers(prices_.size());
  for (TensorIndex t = 0; t < group_of_.size(); ++t) {
    if (savable(t) && t != kind_.input) {
      producers[group_of_[t]].insert(kind_.tensors[t].producer);
    }
  }
  producers_.resize(prices_.size());
  for (std::size_t group = 0; group < prices_.size(); ++group) {
    if (producers[group].size() == 1) {
      producers_[group] = *producers[group].begin();
    } else if (producers[group].size() > 1) {
      spread_.push_back(group);
    }
  }
  if (spread_.size() > most_spread_groups) {
    throw std::invalid_argument("too many groups of tensors with several producers");
  }
}

void SaveCut::add_layer(Network& network) const {
  std::set<TensorIndex> needed;
  for (const BackwardOp& backward : kind_.backward) {
    needed.insert(backward.needs.begin(), backward.needs.end());
  }
  for (const TensorIndex t : needed) {
    connect(network, source, tensor_vertex(t), uncut_);
  }
  for (OpIndex op = 0; op < rerun_.size(); ++op) {
    connect(network, op_vertex(op), sink, rerun_[op]);
    for (const TensorIndex t : kind_.ops[op].reads) {
      connect(network, op_vertex(op), tensor_vertex(t), uncut_);
    }
  }
}

void SaveCut::add_savings(Network& network, std::uint32_t saved) const {
  for (TensorIndex t = 0; t < group_of_.size(); ++t) {
    if (t == kind_.input) {
      continue;
    }
    const std::size_t producer = op_vertex(kind_.tensors[t].producer);
    if (!savable(t)) {
      connect(network, tensor_vertex(t), producer, uncut_);
    } else if (producers_[group_of_[t]]) {
      connect(network, tensor_vertex(t), group_vertex(group_of_[t]), uncut_);
    } else {
      const auto at = std::find(spread_.begin(), spread_.end(), group_of_[t]) - spread_.begin();
      if ((saved >> at & 1U) == 0) {
        connect(network, tensor_vertex(t), producer, uncut_);
      }
    }
  }
  for (std::size_t group = 0; group < prices_.size(); ++group) {
    if (producers_[group]) {
      connect(network, group_vertex(group), op_vertex(*producers_[group]), *prices_[group]);
    }
  }
}

SaveCut::Cut SaveCut::cut(std::uint32_t saved) const {
  Network network(group_vertex(prices_.size()));
  add_layer(network);
  add_savings(network, saved);
  Cut result;
  result.cost = push_relabel_max_flow(network, source, sink, get(&Pipe::capacity, network),
                                      get(&Pipe::residual, network), get(&Pipe::reverse, network),
                                      get(boost::vertex_index, network));
  const std::vector<bool> chosen = source_side(network);
  for (OpIndex op = 0; op < rerun_.size(); ++op) {
    if (chosen[op_vertex(op)]) {
      result.rerun.push_back(op);
    }
  }
  for (std::size_t group = 0; group < prices_.size(); ++group) {
    const auto at = std::find(spread_.begin(), spread_.end(), group);
    const bool decided = at != spread_.end() && (saved >> (at - spread_.begin()) & 1U) != 0;
    result.cost += decided ? *prices_[group] : 0;
    if (decided || (producers_[group] && chosen[group_vertex(group)] &&
                    !chosen[op_vertex(*producers_[group])])) {
      result.groups.push_back(group);
    }
  }
  return result;
}

SaveChoice SaveCut::solve() {
  Cut best = cut(0);
  for (std::uint32_t saved = 1; saved < 1U << spread_.size(); ++saved) {
    Cut next = cut(saved);
    const auto key = [](const Cut& c) { return std::pair(c.cost, c.rerun.size()); };
    if (key(next) < key(best)) {
      best = std::move(next);
    }
  }
  return {std::move(best.groups), std::move(best.rerun), static_cast<double>(best.cost) * 1e-12};
}

} // namespace

SaveChoice cheapest_saves(const LayerKind& kind, const SaveCosts& costs) {
  if (costs.rerun_s.size() != kind.ops.size() || costs.group_of.size() != kind.tensors.size()) {
    throw std::invalid_argument("costs of a cut are those of another layer");
  }
  return SaveCut(kind, costs).solve();
}

} // namespace spillway
