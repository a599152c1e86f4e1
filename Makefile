# SPDX-License-Identifier: Apache-2.0
# A thin front of CMake: each target is one command on a fresh machine (check, asan, tsan, fuzz and format want scripts/setup --dev).
PREFIX ?= /usr/local
DESTDIR ?=
SECONDS ?= 60

.PHONY: all demo test check asan tsan fuzz fuzz_reach soak reach mutants install uninstall format clean

all:
	scripts/setup
	test -f build/release/build.ninja || cmake --preset release
	cmake --build build/release

demo:
	scripts/demo

test:
	scripts/test

check: all
	scripts/check

asan tsan:
	scripts/setup
	test -f build/$@/build.ninja || cmake --preset $@
	cmake --build build/$@
	scripts/run_tests build/$@ $(TESTS_$@)

# Threads are the engine's, and whoever shares objects with it; the other rooms have one.
TESTS_tsan = -R '^(base|cache|engine|api|abi|torture)/|^meta/test_engine_laws|^text/test_tok_bad|^chat/test_template|^exec/test_exec'

# Each fuzz target for SECONDS seconds, from the seeds in tests/fuzz/corpus.
fuzz:
	scripts/setup --dev
	scripts/run_fuzz $(SECONDS)

# Each public function must be executed by a test.
reach:
	scripts/setup --dev
	scripts/check_reach --run

# The corpus of each fuzz target must reach 90 % of the lines of what it is there for.
fuzz_reach:
	scripts/setup --dev
	scripts/check_fuzz_reach --run

# REQUESTS random requests on a small model, e.g. make soak PRESET=tsan. Sanitizers of this age want addresses that are not randomised.
PRESET ?= release
REQUESTS ?= 20000
soak:
	scripts/setup
	test -f build/$(PRESET)/build.ninja || cmake --preset $(PRESET)
	cmake --build build/$(PRESET) --target soak
	setarch -R build/$(PRESET)/tests/soak build/$(PRESET)/tests $(REQUESTS)

# Each planted fault of tests/mutants/patches must turn its test red.
mutants:
	scripts/setup --dev
	scripts/run_mutants

# Below DESTDIR/PREFIX: program, library, headers, pkg-config and CMake packages, manual pages, the built-in model.
install: all
	DESTDIR="$(DESTDIR)" scripts/install build/release "$(PREFIX)"

uninstall:
	DESTDIR="$(DESTDIR)" scripts/install --uninstall build/release "$(PREFIX)"

format:
	find src include tests abi examples \( -name '*.c' -o -name '*.h' \) -not -path '*/gen/*' -print0 | xargs -0 clang-format -i

clean:
	rm -rf build
