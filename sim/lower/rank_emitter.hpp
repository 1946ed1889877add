// Emits the tasks of one rank. The emitter walks the step's segments (a layer's
// forward or backward) and knows lanes and dependencies; when copies start is
// decided by the schedule functions in copies.cpp.
#pragma once

#include "sim/lower/step_context.hpp"

#include <array>
#include <utility>
#include <vector>

namespace spillway {

class RankEmitter {
public:
  RankEmitter(StepContext& context, std::uint16_t rank, RankLanes lanes, RankResources resources);
  void emit_step();

private:
  struct Segment {
    std::size_t layer = 0;
    bool backward = false;
    std::int64_t micro_batch = 0;
  };
  // Tasks of a layer's current micro-batch that later segments refer to.
  struct LayerTasks {
    std::vector<TaskId> forward_steps;
    std::vector<TaskId> stores; // by index into LayerProgram::offloaded
    std::vector<TaskId> reloads;
  };
  struct PendingGradient {
    TaskId reduced = no_id;
    std::size_t layer = 0;
    std::size_t group = 0;
    std::int64_t micro_batch = 0;
  };

  // ---- tasks (rank_emitter.cpp) ----
  TaskId add_kernel(std::uint32_t work, TaskInfo info);
  TaskId add_collective(std::uint32_t work, TaskInfo info);
  [[nodiscard]] RouteId collective_route(std::uint32_t work);
  [[nodiscard]] std::uint32_t hbm_work(double bytes);
  void note(TaskId task, TaskInfo info, TaskPrice price);
  [[nodiscard]] TaskInfo info(TaskKind kind, Phase phase, std::size_t layer,
                              const std::string& label) const;
  [[nodiscard]] TaskInfo step_info(TaskKind kind, Phase phase, const std::string& label) const;
  void emit_segment(std::size_t index);
  // ---- loops that leave iterations out (rank_emitter.cpp) ----
  void end_layer_iteration(const Segment& segment, std::size_t first);
  void end_micro_batch(std::int64_t micro_batch);
  [[nodiscard]] std::size_t loop_of(const LoopOf& what, std::int64_t left_out);
  struct Iteration {
    bool is_special = false; // unlike those left out
    bool in_the_middle = false;
  };
  void end_iteration(std::size_t loop, Iteration iteration, std::size_t first);
  void emit_program(std::size_t index);
  TaskId emit_step_task(std::size_t segment_index, std::uint32_t step_index,
                        std::vector<TaskId>& step_tasks);
  void hold_weights(TaskId task, std::size_t segment_index, const ProgramStep& step);
  void hold_step_memory(TaskId task, std::size_t segment_index, const ProgramStep& step);
  void wait_at_start(TaskId task); // of a segment: hands start_waits_ to its first kernel
  // The last layer's backward follows its forward at once and uses the same weights.
  [[nodiscard]] bool weights_stay(std::size_t segment_index) const;

  // ---- weights (weights.cpp) ----
  struct CollectiveKey {
    WorkKind kind;
    std::uint32_t layer_kind;
    std::size_t group;
    bool operator==(const CollectiveKey&) const = default;
  };
  [[nodiscard]] std::uint32_t collective_work(WorkKind kind, std::size_t layer, std::size_t group);
  struct WhichWeights {
    bool gathers = false; // groups that are sharded over several ranks
    bool casts = false;   // groups that are only cast
  };
  void gather_weights(std::size_t segment_index, TaskId top, WhichWeights which);
  void reduce_gradients(const Segment& segment, const ProgramStep& step, TaskId task);
  void fold_gradient(const PendingGradient& pending);
  void zero_gradients();
  void use_gradient(const PendingGradient& pending, std::int64_t bytes);
  void hold_gradients(TaskId task, double parameters);
  [[nodiscard]] std::int64_t gradient_shard_bytes(double parameters) const;
  [[nodiscard]] bool table_is_hoisted() const;
  void run_optimizer();
  void fill_stacks();
  void keep_unchecked(std::size_t layer);
  void read_unchecked(std::size_t layer);
  void release_unchecked(std::size_t layer);
  void hold_across_backward(TaskId top, std::size_t layer);
  [[nodiscard]] bool holds_logit_gradient() const;
  [[nodiscard]] MemoryChange hbm(HbmOwner owner, std::int64_t bytes) const;
  [[nodiscard]] std::int64_t shard_bytes(std::size_t layer, std::size_t group) const;
  // ---- copies (copies.cpp) ----
  void before_forward(std::size_t layer, TaskId top);
  void before_forward_step(std::size_t layer, const ProgramStep& step, TaskId task);
  void after_forward_step(std::size_t layer, const ProgramStep& step, TaskId task);
  void after_forward(std::size_t layer);
  void release_staging(std::size_t layer, TaskId after = no_id);
  void before_backward(std::size_t layer, TaskId top);
  void before_backward_step(std::size_t layer, const ProgramStep& step);
  void after_backward_step(std::size_t layer, std::uint32_t step, TaskId task);
  [[nodiscard]] bool reloads_at_top(std::size_t layer) const;
  void wait_for_reloads(std::size_t layer, const ProgramStep& step, TaskId task);
  void store(std::size_t layer, std::size_t which, TaskId after, bool peeled = false);
  void reload(std::size_t layer, std::size_t which, TaskId after, bool peeled);
  void reload_all(std::size_t layer, TaskId after, bool peeled);
  TaskId add_copy(bool to_host, std::int64_t bytes, bool peeled, TaskInfo info);
  [[nodiscard]] std::size_t offloaded_index(std::size_t layer, TensorIndex tensor) const;
  [[nodiscard]] OwnerId host_owner(std::size_t layer, std::size_t which) const;

  StepContext& context_;
  std::uint16_t rank_;
  RankLanes lanes_;
  RankResources resources_;
  RouteId d2h_route_ = no_id, h2d_route_ = no_id;
  std::vector<RouteId> routes_; // of collectives, by work; no_id = not made yet

  std::vector<Segment> segments_;
  std::int32_t micro_batch_ = 0;      // of the segment under way
  std::size_t micro_batch_begin_ = 0; // its first task
  std::size_t layer_loop_ = 0;        // index into Lowered::loops
  std::vector<LayerTasks> tasks_;     // by layer
  TaskId last_compute_ = no_id;
  std::vector<TaskId> start_waits_; // what the next segment's first kernel waits for
  // The gathers of a segment, by group; no_id when there is nothing to gather.
  std::vector<std::array<TaskId, weight_group_count>> gathered_;
  std::vector<PendingGradient> pending_gradients_;
  std::int64_t gradient_bytes_ = 0; // of sharded gradients held by now
  std::int64_t tied_gradient_bytes_ = 0;
  std::vector<std::pair<CollectiveKey, std::uint32_t>> collective_works_;
};

} // namespace spillway
