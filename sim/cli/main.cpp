// Turns exceptions into messages and exit codes; nothing else.
#include "sim/cli/commands.hpp"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>

int main(int argc, char** argv) {
  using spillway::ExitCode;
  try {
    const ExitCode code = spillway::run_command({argv + 1, argv + argc});
    return static_cast<int>(code);
  } catch (const spillway::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::overflow_error&) {
    fmt::print(stderr, "error: a step of this scenario would take longer than 53 days\n");
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
