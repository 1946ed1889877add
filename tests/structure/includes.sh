#!/bin/sh
# Folders depend on each other in one direction only: each #include "..." names a
# folder that the including folder may use, by its path from the repository root.
# Runs in the root of the repository.
set -eu

# shellcheck disable=SC2016 # an awk program
check='
BEGIN {
  allowed["sim/base"] = "sim/base"
  allowed["sim/engine"] = "sim/base sim/engine"
  allowed["sim/graph_file"] = "sim/base sim/engine sim/graph_file"
  allowed["hw_models"] = "sim/base hw_models"
  allowed["hw_models/calibration"] = "sim/base hw_models hw_models/calibration"
  allowed["workloads"] = "sim/base workloads"
  allowed["policies"] = "sim/base hw_models workloads policies"
  allowed["sim/lower"] = "sim/base sim/engine hw_models workloads policies sim/lower"
  allowed["sim/analysis"] = "sim/base sim/engine sim/analysis"
  allowed["results"] = "sim/base sim/engine sim/graph_file hw_models hw_models/calibration" \
                       " workloads policies sim/lower sim/analysis results"
  allowed["results/planning"] = allowed["results"] " results/planning"
  allowed["sim/cli"] = allowed["results/planning"] " sim/cli"
}
function folder_of(path) {
  return sub(/\/[^\/]*$/, "", path) ? path : ""
}
function complain(message) {
  print FILENAME ":" FNR ": " message
  wrong = 1
}
FNR == 1 {
  folder = folder_of(FILENAME)
  if (!(folder in allowed)) {
    complain("folder " folder " has no rule in tests/structure/includes.sh")
  }
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
  path = $0
  sub(/^[^"]*"/, "", path)
  sub(/".*/, "", path)
  if (folder_of(path) == "") {
    complain("\"" path "\" is not a path from the repository root")
  } else if (index(" " allowed[folder] " ", " " folder_of(path) " ") == 0) {
    complain(folder " must not include \"" path "\"")
  }
}
/^[ \t]*#[ \t]*include[ \t]*<(sim|hw_models|workloads|policies|results)\// {
  complain("write headers of this project in quotes")
}
/^[ \t]*#[ \t]*include[ \t]*<yaml-cpp\// && FILENAME != "sim/base/yaml.cpp" {
  complain("only sim/base/yaml.cpp uses yaml-cpp")
}
END { exit wrong }
'

find sim hw_models workloads policies results \( -name '*.cpp' -o -name '*.hpp' \) \
  -exec awk "$check" {} +
