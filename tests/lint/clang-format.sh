#!/usr/bin/env bash
# Every C file is as clang-format would write it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
git ls-files -z --cached --others --exclude-standard -- '*.c' '*.h' |
	xargs -0 -r -P 2 -n 20 clang-format --dry-run -Werror
