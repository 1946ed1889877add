#include "sim/base/source_text.hpp"
#include "sim/base/units.hpp"
#include "sim/base/yaml.hpp"
#include "sim/graph_file/graph_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr double longest_s = 0x1p62 / 1e12; // what the engine can count
constexpr RealRange positive{0, std::numeric_limits<double>::max(), true};
constexpr RealRange not_negative{0, std::numeric_limits<double>::max()};
// Where mistakes are many, the first few deserve the search for a near name.
constexpr std::size_t most_suggestions = 20;

// Ids by name, in the order of adding.
class Names {
public:
  [[nodiscard]] std::uint32_t find(const std::string& name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? no_id : found->second;
  }
  // False when it is there already.
  bool add(const std::string& name) {
    const bool is_new = ids_.emplace(name, static_cast<std::uint32_t>(list_.size())).second;
    if (is_new) {
      list_.push_back(name);
    }
    return is_new;
  }
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

private:
  std::vector<std::string> list_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

// A plain number, or one with the unit that `dimension` wants.
[[nodiscard]] std::optional<double> read_amount(const YamlNode& node, Dimension dimension,
                                                RealRange range, std::string_view what,
                                                Diagnostics& diagnostics) {
  const bool has_unit =
      node.is_scalar() && node.text.find_first_not_of("0123456789.eE+-_") != std::string::npos;
  return has_unit ? read_quantity(node, dimension, range, what, diagnostics)
                  : read_number(node, range, what, diagnostics);
}

[[nodiscard]] std::int64_t read_bytes(const YamlNode& node, std::string_view what,
                                      Diagnostics& diagnostics) {
  if (const auto whole =
          node.is_scalar() ? parse_whole(node.text, Dimension::bytes) : std::nullopt) {
    return *whole;
  }
  return static_cast<std::int64_t>(
      read_quantity(node, Dimension::bytes, not_negative, what, diagnostics).value_or(1));
}

[[nodiscard]] SimTime read_time(const YamlNode& node, std::string_view what,
                                Diagnostics& diagnostics) {
  constexpr std::int64_t longest_ps = std::int64_t{1} << 62;
  const auto whole = node.is_scalar() ? parse_whole(node.text, Dimension::seconds) : std::nullopt;
  if (whole && *whole <= longest_ps) {
    return SimTime{*whole};
  }
  const auto seconds = read_quantity(node, Dimension::seconds, {0, longest_s}, what, diagnostics);
  return to_sim_time(Seconds{seconds.value_or(1)});
}

class GraphReader {
public:
  explicit GraphReader(const YamlNode& root) : top_(root, "task_graph", diagnostics_) {}

  [[nodiscard]] NamedGraph read() {
    read_kind();
    read_resources();
    read_lanes();
    read_pools();
    read_tasks();
    top_.finish();
    diagnostics_.sort_by_place();
    diagnostics_.throw_if_any();
    for (PoolId pool = 0; pool < owners_.size(); ++pool) {
      result_.machine.pools[pool].owners = owners_[pool].list();
    }
    result_.task_names = tasks_.list();
    result_.graph = std::move(builder_).build(result_.machine);
    return std::move(result_);
  }

private:
  // A file of another kind has nothing of what follows, which needs no list of its own.
  void read_kind() {
    static const std::array<std::string, 1> kinds{"task_graph"};
    const YamlNode* const kind = top_.required_child("kind");
    if (kind == nullptr || (kind->is_scalar() && kind->text == kinds.front())) {
      return;
    }
    if (kind->is_scalar() && kind->text == "scenario") {
      diagnostics_.add(kind->place, "a scenario is no task graph",
                       "`spillway run` takes scenarios");
    } else {
      static_cast<void>(top_.choice("kind", kinds));
    }
    diagnostics_.throw_if_any();
  }

  // ---- The machine ----

  void read_resources() {
    for_each_entry(top_.child("resources"), "resources", [this](const YamlEntry& entry) {
      check_name(entry.key, entry.key_place);
      resources_.add(entry.key);
      const double capacity =
          read_amount(entry.value, Dimension::byte_rate, positive, entry.key, diagnostics_)
              .value_or(1);
      result_.machine.resources.push_back({entry.key, capacity});
    });
  }

  void read_lanes() {
    for_each_name(top_.required_child("lanes"), "lanes", [this](const YamlNode& node) {
      check_name(node.text, node.place);
      if (lanes_.add(node.text)) {
        result_.machine.lanes.push_back({node.text});
      } else {
        diagnostics_.add(node.place, fmt::format("lane '{}' is named twice", node.text));
      }
    });
  }

  void read_pools() {
    for_each_entry(top_.child("pools"), "pools",
                   [this](const YamlEntry& entry) { read_pool(entry); });
  }

  void read_pool(const YamlEntry& entry) {
    static const std::array<std::string, 2> modes{"record", "stall"};
    MapReader in(entry.value, entry.key, diagnostics_);
    Pool pool;
    pool.name = entry.key;
    check_name(entry.key, entry.key_place);
    const std::size_t mistakes = diagnostics_.count();
    if (const YamlNode* capacity = in.required_child("capacity")) {
      pool.capacity = read_bytes(*capacity, "capacity", diagnostics_);
    }
    pool.mode = in.choice_or("mode", modes, 0) == 1 ? PoolMode::stall : PoolMode::record;
    const auto id = static_cast<PoolId>(result_.machine.pools.size());
    pools_.add(entry.key);
    result_.machine.pools.push_back(pool);
    Names& owners = owners_.emplace_back();
    for_each_name(in.child("owners"), "owners", [&](const YamlNode& node) {
      check_name(node.text, node.place);
      if (!owners.add(node.text)) {
        diagnostics_.add(node.place, fmt::format("owner '{}' is named twice", node.text));
      }
    });
    owners_are_listed_.push_back(in.has("owners"));
    std::int64_t room = pool.capacity;
    for_each_entry(in.child("held"), "held", [&](const YamlEntry& held) {
      const MemoryChange change = read_change(id, held);
      builder_.hold_from_the_start(change);
      room = change.bytes > room ? -1 : room - change.bytes;
      if (room < 0 && pool.mode == PoolMode::stall && diagnostics_.count() == mistakes) {
        diagnostics_.add(held.value.place,
                         fmt::format("pool '{}' holds more from the start than its {}", pool.name,
                                     exact_bytes(pool.capacity)));
      }
    });
    in.finish();
  }

  // ---- Tasks ----

  // Names come first, since `after` may look ahead.
  void read_tasks() {
    const YamlNode* const list = top_.required_child("tasks");
    if (list == nullptr) {
      return;
    }
    if (!list->is_sequence()) {
      diagnostics_.add(list->place, "'tasks' must be a list");
      return;
    }
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      add_task_name(list->items[i], i);
    }
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      read_task(list->items[i], static_cast<TaskId>(i));
    }
  }

  // A task without a good name gets one that no file can hold, so that ids stay
  // those of the list; what is wrong is reported once.
  void add_task_name(const YamlNode& node, std::size_t index) {
    const YamlNode* const name = node.find("name");
    if (name != nullptr && name->is_scalar() && !name->text.empty()) {
      check_name(name->text, name->place);
      if (tasks_.add(name->text)) {
        return;
      }
      diagnostics_.add(name->place, fmt::format("task '{}' is named twice", name->text));
    } else if (name != nullptr) {
      diagnostics_.add(name->place, "'name' must be a text that is not empty");
    }
    tasks_.add(fmt::format("tasks[{}]\n", index));
  }

  void read_task(const YamlNode& node, TaskId task) {
    const YamlNode* const name = node.find("name");
    const bool named = name != nullptr && name->is_scalar() && !name->text.empty();
    MapReader in(node, named ? name->text : fmt::format("tasks[{}]", task), diagnostics_);
    if (!node.is_map()) { // which is said
      static_cast<void>(builder_.add_fixed(no_id, SimTime{0}));
      return;
    }
    static_cast<void>(in.required_child("name"));
    result_.task_places.push_back(named ? name->place : node.place);
    const LaneId lane = read_lane(in);
    if (in.has("work")) {
      add_flow(in, lane);
    } else {
      add_fixed(in, lane);
    }
    read_after(in, task);
    for_each_change(in.child("allocate"), "allocate", [this, task](MemoryChange change) {
      builder_.allocate_at_start(task, change);
    });
    for_each_change(in.child("free"), "free",
                    [this, task](MemoryChange change) { builder_.free_at_end(task, change); });
    in.finish();
  }

  [[nodiscard]] LaneId read_lane(MapReader& in) {
    const YamlNode* const lane = in.required_child("lane");
    return lane == nullptr ? no_id : look_up(lanes_, *lane, "lane");
  }

  void add_fixed(MapReader& in, LaneId lane) {
    for (const char* key : {"latency", "over", "limit"}) {
      if (in.has(key)) {
        in.accept(key);
        in.error(key, fmt::format("'{}' goes with 'work'", key), "a task with 'time' uses nothing");
      }
    }
    const YamlNode* const time = in.child("time");
    if (time == nullptr) {
      in.error("name", fmt::format("task '{}' has neither 'time' nor 'work'", in.what()));
    }
    static_cast<void>(builder_.add_fixed(
        lane, time == nullptr ? SimTime{0} : read_time(*time, "time", diagnostics_)));
  }

  void add_flow(MapReader& in, LaneId lane) {
    if (in.has("time")) {
      in.accept("time");
      in.error("time", "'time' and 'work' exclude each other",
               "what a flow needs before it moves anything is its 'latency'");
    }
    const double work =
        read_amount(*in.child("work"), Dimension::bytes, not_negative, "work", diagnostics_)
            .value_or(0);
    const YamlNode* const latency = in.child("latency");
    const YamlNode* const limit = in.child("limit");
    std::vector<Use> uses;
    for_each_entry(in.child("over"), "over",
                   [&](const YamlEntry& entry) { uses.push_back(read_use(entry)); });
    if (uses.empty() && limit == nullptr) {
      in.error("work", "a flow over no resource needs a 'limit'");
    }
    const SimTime before =
        latency == nullptr ? SimTime{0} : read_time(*latency, "latency", diagnostics_);
    const double most = limit == nullptr ? std::numeric_limits<double>::infinity()
                                         : read_amount(*limit, Dimension::byte_rate, positive,
                                                       "limit", diagnostics_)
                                               .value_or(1);
    static_cast<void>(builder_.add_flow(lane, before, work, route_of(uses), most));
  }

  [[nodiscard]] Use read_use(const YamlEntry& entry) {
    const ResourceId resource = look_up(resources_, entry.key, entry.key_place, "resource");
    const std::optional<double> weight =
        read_number(entry.value, positive, entry.key, diagnostics_);
    if (resource != no_id && weight) {
      check_range(entry, result_.machine.resources[resource].capacity, *weight);
    }
    return {resource, weight.value_or(1)};
  }

  void check_range(const YamlEntry& use, double capacity, double weight) {
    if (const UseRange range = range_of_use(capacity, weight); range != UseRange::sound) {
      diagnostics_.add(use.value.place,
                       fmt::format("weight {} is too {} for the capacity {} of '{}'", weight,
                                   range == UseRange::weight_too_large ? "large" : "small",
                                   capacity, use.key));
    }
  }

  // Flows over the same resources in the same order share a route.
  [[nodiscard]] RouteId route_of(const std::vector<Use>& uses) {
    std::vector<std::pair<ResourceId, std::uint64_t>> key;
    key.reserve(uses.size());
    for (const Use& use : uses) {
      key.emplace_back(use.resource, std::bit_cast<std::uint64_t>(use.weight));
    }
    const auto [found, is_new] = routes_.try_emplace(std::move(key), no_id);
    if (is_new) {
      found->second = builder_.add_route(uses);
    }
    return found->second;
  }

  void read_after(MapReader& in, TaskId task) {
    std::vector<TaskId> seen;
    for_each_name(in.child("after"), "after", [&](const YamlNode& node) {
      const TaskId on = look_up(tasks_, node, "task");
      if (on == task) {
        diagnostics_.add(node.place, fmt::format("task '{}' cannot run after itself", node.text));
      } else if (std::find(seen.begin(), seen.end(), on) != seen.end() && on != no_id) {
        diagnostics_.add(node.place, fmt::format("'after' names '{}' twice", node.text));
      } else {
        builder_.depend(task, on);
      }
      seen.push_back(on);
    });
  }

  // ---- Memory ----

  template <class Apply>
  void for_each_change(const YamlNode* node, std::string_view what, Apply apply) {
    for_each_entry(node, what, [&](const YamlEntry& entry) {
      const PoolId pool = look_up(pools_, entry.key, entry.key_place, "pool");
      for_each_entry(&entry.value, entry.key, [&](const YamlEntry& change) {
        if (pool != no_id) {
          apply(read_change(pool, change));
        }
      });
    });
  }

  [[nodiscard]] MemoryChange read_change(PoolId pool, const YamlEntry& entry) {
    Names& owners = owners_[pool];
    if (!owners_are_listed_[pool] && owners.add(entry.key)) {
      check_name(entry.key, entry.key_place);
    }
    const OwnerId owner = look_up(owners, entry.key, entry.key_place, "owner");
    return {pool, owner, read_bytes(entry.value, entry.key, diagnostics_)};
  }

  // ---- Shapes ----

  template <class Take>
  void for_each_entry(const YamlNode* node, std::string_view what, Take take) {
    if (node == nullptr) {
      return;
    }
    if (!node->is_map()) {
      diagnostics_.add(node->place, fmt::format("'{}' must be a map", what));
      return;
    }
    for (const YamlEntry& entry : node->entries) {
      take(entry);
    }
  }

  template <class Take>
  void for_each_name(const YamlNode* node, std::string_view what, Take take) {
    if (node == nullptr) {
      return;
    }
    if (!node->is_sequence()) {
      diagnostics_.add(node->place, fmt::format("'{}' must be a list of names", what),
                       node->is_scalar() ? fmt::format("write [{}]", node->text) : "");
      return;
    }
    for (const YamlNode& item : node->items) {
      if (item.is_scalar() && !item.text.empty()) {
        take(item);
      } else {
        diagnostics_.add(item.place, fmt::format("'{}' must be a list of names", what));
      }
    }
  }

  [[nodiscard]] std::uint32_t look_up(const Names& names, const YamlNode& node, const char* kind) {
    if (!node.is_scalar()) {
      diagnostics_.add(node.place, fmt::format("'{}' must be a name", kind));
      return no_id;
    }
    return look_up(names, node.text, node.place, kind);
  }

  // no_id after reporting.
  [[nodiscard]] std::uint32_t look_up(const Names& names, const std::string& name,
                                      const Place& place, const char* kind) {
    const std::uint32_t id = names.find(name);
    if (id == no_id) {
      const bool search = diagnostics_.count() < most_suggestions;
      diagnostics_.add(place, fmt::format("unknown {} '{}'", kind, name),
                       search ? suggestion(name, written_names(names)) : "");
    }
    return id;
  }

  // Without those that stand for a task whose name is wrong.
  [[nodiscard]] static std::vector<std::string> written_names(const Names& names) {
    std::vector<std::string> written;
    std::ranges::copy_if(names.list(), std::back_inserter(written), is_plain_line);
    return written;
  }

  // Reports and graph_text write names in one line.
  void check_name(const std::string& name, const Place& place) {
    if (!is_plain_line(name)) {
      diagnostics_.add(place, fmt::format("the name '{}' has a control character", name));
    }
  }

  Diagnostics diagnostics_;
  MapReader top_;
  NamedGraph result_;
  TaskGraphBuilder builder_;
  Names resources_, lanes_, pools_, tasks_;
  std::vector<Names> owners_; // per pool
  std::vector<bool> owners_are_listed_;
  std::map<std::vector<std::pair<ResourceId, std::uint64_t>>, RouteId> routes_;
};

} // namespace

NamedGraph parse_graph(const std::string& text, const std::string& name) {
  return GraphReader(parse_yaml(text, name, most_graph_bytes)).read();
}

NamedGraph load_graph(const std::filesystem::path& path) {
  return GraphReader(load_yaml(path, most_graph_bytes)).read();
}

} // namespace spillway
