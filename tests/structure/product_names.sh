#!/bin/sh
# Machines and models are data: no product is named in the program's sources.
# Runs in the root of the repository.
set -eu

names='gb200|gb300|h200|h100|b200|gh200|a100|rubin|deepseek|llama|qwen|mixtral|gpt-oss|gemma|nemotron'

status=0
grep -rniE --include='*.cpp' --include='*.hpp' "$names" \
  sim hw_models workloads policies results || status=$?
case $status in
  0) echo 'product names belong into the data files, not into the sources'; exit 1 ;;
  1) exit 0 ;;
  *) exit "$status" ;;
esac
