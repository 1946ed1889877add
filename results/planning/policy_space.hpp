// Every policy that a search may choose: a fate for each name in each kind of layer.
//
// A name stands for the tensors that carry it; a tensor that has several is chosen by the
// most specific one that the framework knows. Kinds of one name (windowed layers) are
// treated alike.
#pragma once

#include "policies/plan.hpp"
#include "sim/lower/scenario.hpp"
#include "sim/lower/step_bound.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

// "query_proj" or "moe.query_proj" to a fate that the search has to keep.
using Pins = std::map<std::string, Fate, std::less<>>;

// Fates of one group's names: bit i of `saved` is name i, `offloaded` is part of it.
struct GroupChoice {
  std::uint32_t saved = 0, offloaded = 0;
  bool operator==(const GroupChoice&) const = default;
  bool operator<(const GroupChoice& other) const {
    return std::pair(saved, offloaded) < std::pair(other.saved, other.offloaded);
  }
};
using Choice = std::vector<GroupChoice>; // by group

[[nodiscard]] Fate fate_of(GroupChoice choice, std::size_t name);
[[nodiscard]] GroupChoice with_fate(GroupChoice choice, std::size_t name, Fate fate);
// What is pinned for a name in a kind of layer; that kind's own pin is the stronger one.
[[nodiscard]] std::optional<Fate> pin_of(const Pins& pins, const std::string& kind,
                                         const std::string& name);

class GroupSpace {
public:
  // Names beyond these would be too many sets to look at one by one.
  static constexpr std::size_t most_free_names = 20;

  GroupSpace(const Scenario& scenario, const StepBound::Group& group, const Pins& pins);

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::optional<Fate> pinned(std::size_t name) const { return pinned_[name]; }
  // Whether a tensor of the group's first kind carries the name.
  [[nodiscard]] bool is_named(TensorIndex tensor, std::size_t name) const {
    return name_of_.front()[tensor] == name;
  }
  [[nodiscard]] bool is_input(std::size_t name) const { // of the layer: it is always saved
    return (always_saved_ >> name & 1U) != 0;
  }
  [[nodiscard]] bool may_be(std::size_t name, Fate fate) const;
  [[nodiscard]] GroupChoice least() const; // saves the layer's input, and what is pinned
  // Policies that differ in what is asked for, as a number.
  [[nodiscard]] double policies() const;
  // What is saved, all of it used: without names that backward does not need when the
  // others are saved. Pinned ones are as they are pinned.
  [[nodiscard]] std::vector<std::uint32_t> saved_sets() const;

  [[nodiscard]] std::vector<KindPlan> plans(GroupChoice choice) const; // by kind of the group
  // Lets plans of a saved set offload and keep what `offloaded` and `kept` say; what is
  // saved and in neither costs nothing.
  void set_fates(std::uint32_t kept, std::uint32_t offloaded, std::vector<KindPlan>& plans) const;
  // Plans that save not even the layer's input: what no policy can be faster than.
  [[nodiscard]] std::vector<KindPlan> nothing_saved() const;
  // Bytes of each name, all layers and one micro-batch.
  [[nodiscard]] const std::vector<std::int64_t>& bytes() const { return bytes_; }
  [[nodiscard]] GroupChoice choice_of(const PolicySpec& policy, const StepTrace& trace,
                                      const FrameworkSpec& framework) const;
  void write(GroupChoice choice, PolicySpec& policy) const; // into by_kind

private:
  [[nodiscard]] bool all_used(std::uint32_t saved, const std::vector<KindPlan>& plans) const;

  std::string kind_;
  std::vector<const LayerKind*> kinds_;
  std::vector<std::string> names_;
  std::vector<std::optional<Fate>> pinned_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::vector<std::size_t>> name_of_; // by kind, by tensor; a large number = none
  std::uint32_t always_saved_ = 0;                // the layer's input
};

// Throws InputError for a pin that names nothing, or what cannot be.
void check_pins(const Pins& pins, const std::vector<GroupSpace>& groups);

} // namespace spillway
