#!/bin/sh
# Every source file is named in the CMakeLists.txt that builds it; a forgotten
# one would neither be compiled, installed nor tested. Runs in the root of the
# repository.
set -eu

sources=$(find sim hw_models workloads policies results \( -name '*.cpp' -o -name '*.hpp' \))
tests=$(find tests/unit tests/model tests/property tests/cli tests/bench -name '*.cpp')

wrong=0
for file in $sources; do
  list="${file%/*}/CMakeLists.txt"
  if ! grep -qE "^ *${file##*/}\)?\$" "$list"; then
    echo "$file is not listed in $list"
    wrong=1
  fi
done
for file in $tests; do
  if ! grep -qE "(^| )${file#tests/}\)?( |\$)" tests/CMakeLists.txt; then
    echo "$file is not listed in tests/CMakeLists.txt"
    wrong=1
  fi
done
for file in tests/fuzz/*.cpp; do
  if ! grep -qE "(^|[ (])${file##*/}\)?( |\$)" tests/fuzz/CMakeLists.txt; then
    echo "$file is not listed in tests/fuzz/CMakeLists.txt"
    wrong=1
  fi
done
exit "$wrong"
