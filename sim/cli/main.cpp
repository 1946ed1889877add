// Turns exceptions into messages and exit codes; nothing else.
#include "sim/cli/commands.hpp"
#include "sim/engine/engine.hpp"
#include "sim/graph_file/replay_named.hpp"

#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>

int main(int argc, char** argv) {
  using spillway::ExitCode;
  // A reader that has gone and a limit on file sizes are errors of writing like a full
  // disk: said, and nothing half-written stays behind.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const ExitCode code = spillway::run_command({argv + 1, argv + argc});
    return static_cast<int>(code);
  } catch (const spillway::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(ExitCode::bad_input);
  } catch (const spillway::FileDeadlock& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.out_of_memory() ? ExitCode::no : ExitCode::bad_input);
  } catch (const spillway::Deadlock& error) { // what() names the cause
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.out_of_memory() ? ExitCode::no : ExitCode::bad_input);
  } catch (const std::overflow_error& error) { // sizes or times that no job has
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory: simulate a smaller step or use fewer --jobs\n");
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
