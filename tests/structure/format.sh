#!/bin/sh
# format.sh check: fails and names the files that clang-format would change.
# format.sh fix:   changes them.
# Runs in the root of the repository. Other versions of clang-format lay out
# some code differently, so only the one that the project uses counts.
set -eu

version=14
mode=$1

tool=
for candidate in clang-format "clang-format-$version"; do
  if "$candidate" --version 2>/dev/null | grep -q "version $version\."; then
    tool=$candidate
    break
  fi
done
if [ -z "$tool" ]; then
  echo "skipped: clang-format $version is not installed"
  exit 77
fi

files=$(find sim hw_models workloads policies results tests \( -name '*.cpp' -o -name '*.hpp' \) | sort)
# File names of this project hold no blanks, so splitting is what is wanted.
# shellcheck disable=SC2086
case $mode in
  fix)
    "$tool" -i $files
    ;;
  check)
    changed=$("$tool" --dry-run $files 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:.*/\1/p' | sort -u)
    if [ -n "$changed" ]; then
      printf '%s\n' "$changed" | sed 's/$/: layout differs from .clang-format/'
      echo 'run: ./dev format'
      exit 1
    fi
    ;;
  *)
    echo "usage: format.sh check|fix" >&2
    exit 2
    ;;
esac
