// When copies between HBM and host memory start, and what waits for them. One
// function per moment of a layer; each names what every schedule does there.
#include "sim/lower/rank_emitter.hpp"

#include <algorithm>

namespace spillway {
std::size_t RankEmitter::offloaded_index(std::size_t layer, TensorIndex tensor) const {
  const std::vector<OffloadedTensor>& all = context_.program_of(layer).offloaded;
  const auto found = std::find_if(all.begin(), all.end(), [&](const OffloadedTensor& offloaded) {
    return offloaded.tensor == tensor;
  });
  return static_cast<std::size_t>(found - all.begin());
}

OwnerId RankEmitter::host_owner(std::size_t layer, std::size_t which) const {
  return context_.host_owners.find(context_.program_of(layer).offloaded[which].name)->second;
}

TaskId RankEmitter::add_copy(bool to_host, std::int64_t bytes, bool peeled, TaskInfo task_info) {
  // Peeled copies are kernels; captured ones run on the stream of the graph.
  const bool on_compute = peeled || context_.scenario.runtime.schedule == CopySchedule::serialized;
  const LaneId lane = on_compute ? lanes_.compute : to_host ? lanes_.d2h : lanes_.h2d;
  const TaskId task = context_.graph.add_flow(lane, SimTime{0}, static_cast<double>(bytes),
                                              to_host ? d2h_route_ : h2d_route_);
  const PriceOf price = to_host ? (peeled ? PriceOf::peeled_store : PriceOf::store)
                                : (peeled ? PriceOf::peeled_reload : PriceOf::reload);
  note(task, task_info, {price, 0});
  if (on_compute) {
    wait_at_start(task);
    last_compute_ = task;
  }
  return task;
}

void RankEmitter::store(std::size_t layer, std::size_t which, TaskId after, bool peeled) {
  const OffloadedTensor& offloaded = context_.program_of(layer).offloaded[which];
  const TaskId task =
      add_copy(true, offloaded.bytes, peeled,
               info(TaskKind::store, Phase::forward, layer, "store " + offloaded.name));
  context_.graph.depend(task, after);
  context_.graph.allocate_at_start(
      task, {context_.out.host_pool[rank_], host_owner(layer, which), offloaded.bytes});
  tasks_[layer].stores[which] = task;
}

void RankEmitter::reload(std::size_t layer, std::size_t which, TaskId after, bool peeled) {
  const OffloadedTensor& offloaded = context_.program_of(layer).offloaded[which];
  const TaskId task =
      add_copy(false, offloaded.bytes, peeled,
               info(TaskKind::reload, Phase::backward, layer, "reload " + offloaded.name));
  context_.graph.depend(task, after);
  context_.graph.depend(task, tasks_[layer].stores[which]);
  context_.graph.allocate_at_start(task, hbm(HbmOwner::offload_staging, offloaded.bytes));
  context_.graph.free_at_end(
      task, {context_.out.host_pool[rank_], host_owner(layer, which), offloaded.bytes});
  tasks_[layer].reloads[which] = task;
}

// In the order in which backward uses them.
void RankEmitter::reload_all(std::size_t layer, TaskId after, bool peeled) {
  for (const ProgramStep& step : context_.program_of(layer).backward) {
    for (const TensorIndex tensor : step.reloads) {
      reload(layer, offloaded_index(layer, tensor), after, peeled);
    }
  }
}

void RankEmitter::before_forward(std::size_t layer, TaskId top) {
  const LayerInstance& instance = context_.layers[layer];
  const LayerProgram& program = context_.program_of(layer);
  switch (copy_places(context_.scenario.runtime)) {
  case CopySchedule::pipelined:
    if (!instance.first_of_loop()) { // carried over from the layer before
      // All could start now and one engine serves them one by one, in an order that
      // is not fixed (measured to change between two steps of one program): every
      // other layer the other way round gives the mean of both.
      const std::size_t count = tasks_[layer - 1].stores.size();
      for (std::size_t k = 0; k < count; ++k) {
        store(layer - 1, instance.position % 2 == 1 ? k : count - 1 - k, top);
      }
    }
    break;
  case CopySchedule::streamed: {
    const auto outstanding =
        static_cast<std::size_t>(context_.scenario.runtime.in_flight_layers) + 1;
    if (layer >= outstanding) {
      const std::vector<TaskId>& stores = tasks_[layer - outstanding].stores;
      start_waits_.insert(start_waits_.end(), stores.begin(), stores.end());
    }
    break;
  }
  case CopySchedule::serialized:
  case CopySchedule::loop_bound: break;
  }
  // The layer input is there from the top, so its store need not wait for a step.
  if (copy_places(context_.scenario.runtime) != CopySchedule::pipelined) {
    for (std::size_t k = 0; k < program.offloaded.size(); ++k) {
      if (program.offloaded[k].is_input) {
        store(layer, k, top);
      }
    }
  }
}

void RankEmitter::before_forward_step(std::size_t layer, const ProgramStep& step, TaskId task) {
  // Pipelined: one buffer, so a tensor may not be produced before the layer
  // before it has been stored.
  if (copy_places(context_.scenario.runtime) == CopySchedule::pipelined &&
      !context_.layers[layer].first_of_loop()) {
    for (const TensorIndex tensor : step.stores) {
      context_.graph.depend(task, tasks_[layer - 1].stores[offloaded_index(layer - 1, tensor)]);
    }
  }
}

void RankEmitter::after_forward_step(std::size_t layer, const ProgramStep& step, TaskId task) {
  const CopySchedule schedule = copy_places(context_.scenario.runtime);
  if (schedule != CopySchedule::pipelined) {
    for (const TensorIndex tensor : step.stores) {
      store(layer, offloaded_index(layer, tensor), task);
    }
  }
}

void RankEmitter::after_forward(std::size_t layer) {
  const CopySchedule schedule = copy_places(context_.scenario.runtime);
  const LayerInstance& instance = context_.layers[layer];
  const auto wait_for_stores_of = [&](std::size_t other) {
    const std::vector<TaskId>& stores = tasks_[other].stores;
    start_waits_.insert(start_waits_.end(), stores.begin(), stores.end());
  };
  if (schedule == CopySchedule::pipelined) {
    if (!instance.first_of_loop()) {
      wait_for_stores_of(layer - 1); // a copy does not cross the end of an iteration
    }
    if (instance.last_of_loop()) {
      for (std::size_t k = 0; k < tasks_[layer].stores.size(); ++k) {
        store(layer, k, last_compute_, true);
      }
    }
  } else if (schedule == CopySchedule::loop_bound) {
    wait_for_stores_of(layer);
  }
  if (schedule != CopySchedule::pipelined) {
    release_staging(layer);
  } else if (!instance.first_of_loop()) {
    release_staging(layer - 1);
  }
}

// Staging is given back when the store and the last reader have both ended.
void RankEmitter::release_staging(std::size_t layer, TaskId after) {
  const std::vector<OffloadedTensor>& all = context_.program_of(layer).offloaded;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const TaskId task = context_.graph.add_fixed(lanes_.release, SimTime{0});
    note(task, info(TaskKind::bookkeeping, Phase::forward, layer, "release " + all[k].name),
         {PriceOf::constant, 0});
    context_.graph.depend(task, after);
    context_.graph.depend(task, tasks_[layer].stores[k]);
    context_.graph.depend(task, tasks_[layer].forward_steps[all[k].last_forward_reader]);
    context_.graph.free_at_end(task, hbm(HbmOwner::offload_staging, all[k].bytes));
  }
}

void RankEmitter::before_backward(std::size_t layer, TaskId top) {
  const LayerInstance& instance = context_.layers[layer];
  const RuntimeSpec& runtime = context_.scenario.runtime;
  switch (copy_places(runtime)) {
  case CopySchedule::serialized:
  case CopySchedule::loop_bound: reload_all(layer, top, false); break;
  case CopySchedule::pipelined: {
    if (instance.last_of_loop()) {
      release_staging(layer, last_compute_); // the loop's buffer, held across the head
      reload_all(layer, last_compute_, true);
    } else {
      start_waits_.insert(start_waits_.end(), tasks_[layer].reloads.begin(),
                          tasks_[layer].reloads.end());
    }
    if (!instance.first_of_loop() && reloads_at_top(layer - 1)) {
      const std::vector<OffloadedTensor>& all = context_.program_of(layer - 1).offloaded;
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (!all[k].done_before_attention) {
          reload(layer - 1, k, last_compute_, false);
        }
      }
    }
    break;
  }
  case CopySchedule::streamed: {
    const auto ahead = static_cast<std::size_t>(runtime.prefetch_layers);
    const bool first = layer + 1 == context_.layers.size();
    if (first) {
      for (std::size_t other = layer; other > 0 && other + ahead > layer; --other) {
        reload_all(other, top, false);
      }
    }
    if (layer >= ahead) {
      reload_all(layer - ahead, top, false);
    }
    break;
  }
  }
}

void RankEmitter::before_backward_step(std::size_t layer, const ProgramStep& step) {
  const CopySchedule schedule = copy_places(context_.scenario.runtime);
  if (schedule == CopySchedule::pipelined && step.is_attention_backward &&
      !context_.layers[layer].first_of_loop() && !reloads_at_top(layer - 1)) {
    reload_all(layer - 1, last_compute_, false);
  }
}

// A tensor that is used up early leaves its buffer to the one of the next layer. Layers of
// one loop share a program, so `step` means the same in both.
void RankEmitter::after_backward_step(std::size_t layer, std::uint32_t step, TaskId task) {
  if (copy_places(context_.scenario.runtime) == CopySchedule::pipelined &&
      !context_.layers[layer].first_of_loop() && reloads_at_top(layer - 1)) {
    const std::vector<OffloadedTensor>& all = context_.program_of(layer - 1).offloaded;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all[k].done_before_attention && all[k].last_backward_reader == step) {
        reload(layer - 1, k, task, false);
      }
    }
  }
}

bool RankEmitter::reloads_at_top(std::size_t layer) const {
  const double most = context_.scenario.framework.reload_at_top_above.value;
  return static_cast<double>(context_.program_of(layer).offloaded.size()) > most;
}

void RankEmitter::wait_for_reloads(std::size_t layer, const ProgramStep& step, TaskId task) {
  for (const TensorIndex tensor : step.reloads) {
    context_.graph.depend(task, tasks_[layer].reloads[offloaded_index(layer, tensor)]);
  }
}

} // namespace spillway
