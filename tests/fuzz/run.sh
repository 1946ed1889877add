#!/bin/sh
# Lets one libFuzzer program search for SPILLWAY_FUZZ_SECONDS (60), from the seeds and
# from what earlier runs found. Ends with the first finding, which it leaves in FOUND.
#
#   run.sh PROGRAM SEEDS FOUND
set -eu

program=$1
seeds=$2
found=$3
mkdir -p "$found/corpus"
# A unit that takes ten seconds, or more than 2 GB, is a finding too.
exec "$program" \
  -max_total_time="${SPILLWAY_FUZZ_SECONDS:-60}" \
  -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
  -print_final_stats=1 \
  -artifact_prefix="$found/" \
  "$found/corpus" "$seeds"
