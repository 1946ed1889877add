// The scripts by which shells complete the words of a command line. They only pass the
// words on: see complete.hpp.
#include "results/write.hpp"
#include "sim/cli/commands.hpp"

#include <fmt/format.h>

namespace spillway {
namespace {

// The program that is being typed answers, with its own catalogue.
constexpr const char* bash_script =
    R"(# Completion of spillway in bash, written by `spillway completion bash`.
_spillway() {
  local program=${COMP_WORDS[0]/#\~\//$HOME/} typed=${COMP_WORDS[COMP_CWORD]} line listed
  local -a lines
  mapfile -t lines < <("$program" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=()
  for line in "${lines[@]:1}"; do
    COMPREPLY+=("${line%%$'\t'*}")
  done
  case ${lines[0]} in
    files) listed=file ;;
    folders) listed=directory ;;
    *) return ;;
  esac
  if [[ $typed == = ]]; then # bash breaks --json=FILE at the sign
    typed=
  fi
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -A "$listed" -- "$typed")
}
complete -F _spillway spillway
)";

constexpr const char* zsh_script = R"(#compdef spillway
# Completion of spillway in zsh, written by `spillway completion zsh`.
_spillway() {
  local -a lines
  lines=("${(@f)$(${~words[1]} --complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  case $lines[1] in
    files) compset -P '--*='; _files ;;
    folders) compset -P '--*='; _files -/ ;;
    *)
      # A colon parts a name from its description.
      lines=(${lines[2,-1]//:/\\:})
      lines=(${lines/$'\t'/:})
      _describe 'spillway' lines
      ;;
  esac
}
if [[ $funcstack[1] == _spillway ]]; then
  _spillway "$@" # read from $fpath when first needed
else
  compdef _spillway spillway
fi
)";

constexpr const char* fish_script =
    R"(# Completion of spillway in fish, written by `spillway completion fish`.
function __spillway_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] --complete $words[2..-1] 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path (commandline -ct)
        case folders
            __fish_complete_directories (commandline -ct) ''
        case '*'
            string join \n -- $lines[2..-1]
    end
end
complete -c spillway -f -a '(__spillway_complete)'
)";

struct Shell {
  const char* name;
  const char* script;
};
constexpr Shell known[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

} // namespace

std::vector<std::string> shells() {
  std::vector<std::string> names;
  for (const Shell& shell : known) {
    names.emplace_back(shell.name);
  }
  return names;
}

ExitCode run_completion(const CommonOptions& options) {
  if (options.positional.empty()) {
    throw InputError("'completion' needs a shell", suggestion("", shells()));
  }
  const std::string& wanted = options.positional.front();
  for (const Shell& shell : known) {
    if (wanted == shell.name) {
      write_output("-", shell.script);
      return ExitCode::done;
    }
  }
  throw InputError(fmt::format("no completion for shell '{}'", wanted),
                   suggestion(wanted, shells()));
}

} // namespace spillway
