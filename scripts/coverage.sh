#!/usr/bin/env bash
# Which lines and branches of runtime/ and quant/ the tests reach, as llvm-cov counts them: builds the preset coverage,
# runs the tests that its preset leaves in, prints a table by file, the totals, and the lines that nothing reaches. Files that
# this processor cannot run or this build does not compile are listed as not measured.
#   scripts/coverage.sh [--least PERCENT]   exit status 1 when lines or branches of both folders are below (default 90)
set -euo pipefail
exec </dev/null

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
build=$root/build/coverage
least=90
if [ $# -eq 2 ] && [ "$1" = --least ]; then least=$2; elif [ $# -ne 0 ]; then refuse "unexpected: $*"; fi
[[ $least =~ ^[0-9]+([.][0-9]+)?$ ]] || refuse "'$least' is no number"

"$root/scripts/setup.sh" --fuzz
cd "$root"
cmake --preset coverage
rm -rf "$build/tests/bin"  # programs of tests that are no more
cmake --build --preset coverage --parallel "$(nproc)"
rm -rf "$build/profiles"
mkdir -p "$build/profiles"
# %m: one file a program, into which all its runs are merged.
status=0
LLVM_PROFILE_FILE="$build/profiles/%m.profraw" ctest --preset coverage --parallel "$(nproc)" --output-log "$build/ctest.log" ||
  status=1
llvm-profdata-14 merge --sparse "$build"/profiles/*.profraw -o "$build/coverage.profdata"
python3 "$root/tests/tools/coverage_report.py" --build "$build" --source "$root" --least "$least" || status=1
exit $status
