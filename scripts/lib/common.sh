# SPDX-License-Identifier: Apache-2.0
# common.sh: what every script here starts with. Sourced by bash scripts; sets `top` (the tree) and enters it.
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top"
jobs_n=$(nproc 2>/dev/null || echo 2)

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 2
}

# Configures a preset once and builds the named targets (none = all). Quiet when nothing is to do; the log only when it fails.
build_preset() {
	local preset=$1 dir=build/$1 log
	shift
	log=$(mktemp)
	if [ ! -f "$dir/build.ninja" ] && ! cmake --preset "$preset" >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		die "cmake --preset $preset failed"
	fi
	if ! ninja -C "$dir" -j "$jobs_n" "$@" >"$log" 2>&1; then
		grep -v '^\[[0-9]*/[0-9]*\] \(Building\|Linking\)' "$log" >&2 || true
		rm -f "$log"
		die "the build of $dir failed"
	fi
	rm -f "$log"
}

# The files that belong to the tree, one a line. A copy without git has them all; here those that git knows or would add.
tree_files() {
	if git -C . rev-parse --show-prefix >/dev/null 2>&1 && [ -e .git ]; then
		git ls-files -co --exclude-standard | while IFS= read -r f; do
			if [ -f "$f" ]; then printf '%s\n' "$f"; fi
		done | sort -u
	else
		find . \( -path ./build -o -path ./.git -o -path ./.cache \) -prune -o -type f -print | sed 's|^\./||' | sort
	fi
}

# --- What a checker's self-test uses: a small tree that is clean, then one planted violation after the other. ---

# Starts a self-test in an empty folder; `checker` is the script that is tested, run against that folder by NH_TREE.
self_test_begin() {
	checker=$top/scripts/$1
	plant_dir=$(mktemp -d)
	trap 'rm -rf "$plant_dir"' EXIT
	planted=0 missed=0
	cd "$plant_dir"
}

# The tree as it stands must be clean.
expect_clean() {
	local out
	if ! out=$("$checker" --tree "$plant_dir" 2>&1); then
		printf '%s: self-test: %s: red on a clean tree:\n%s\n' "${checker##*/}" "$1" "$out"
		missed=$((missed + 1))
	fi
}

# The tree as it stands must be red, and the report must hold the text $2.
expect_red() {
	local out
	planted=$((planted + 1))
	if out=$("$checker" --tree "$plant_dir" 2>&1); then
		printf '%s: self-test: %s: not seen\n' "${checker##*/}" "$1"
		missed=$((missed + 1))
	elif [ "${out#*"$2"}" = "$out" ]; then
		printf '%s: self-test: %s: red, but not for "%s":\n%s\n' "${checker##*/}" "$1" "$2" "$out"
		missed=$((missed + 1))
	fi
}

self_test_end() {
	if [ "$planted" -eq 0 ]; then missed=1; fi
	printf '%s: self-test: %d planted, %d missed\n' "${checker##*/}" "$planted" "$missed"
	[ "$missed" -eq 0 ]
}

# Arguments of a checker: --self-test, or --tree DIR (another tree than this one).
checker_args() {
	if [ "${1:-}" = --self-test ]; then
		self_test
		exit
	fi
	if [ "${1:-}" = --tree ]; then
		[ -d "${2:-}" ] || die "--tree needs a folder"
		cd "$2"
		shift 2
	fi
	[ $# -eq 0 ] || die "unknown argument: $1 (--self-test, --tree DIR)"
}

# Ends a checker: violations were printed to file $1, one a line; $2 says what was looked at.
checker_end() {
	local n
	n=$(wc -l <"$1")
	cat "$1"
	rm -f "$1"
	if [ "$n" -gt 0 ]; then
		printf '%s: %d violations (%s)\n' "${0##*/}" "$n" "$2"
		exit 1
	fi
	printf '%s: ok (%s)\n' "${0##*/}" "$2"
}
