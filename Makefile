# Forwards to CMake; everything about the build is in CMakeLists.txt and CMakePresets.json.
# Each target installs what it needs first (tools/setup.sh), after saying what and why.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_ARGS ?=
FUZZ_SECONDS ?= 60

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all
.PHONY: all demo demo-failure test test-long bench install asan tsan fuzz arm64 format tidy clean help

# Both print what the compiler complains about, and all there is only when they fail: configure DIRECTORY OPTIONS,
# build DIRECTORY [TARGET].
quietly = $(if $(VERBOSE),,>$(1)/build.log || { cat $(1)/build.log; exit 1; })
configure = mkdir -p $(1) && cmake --log-level=WARNING $(2) $(CMAKE_ARGS) $(call quietly,$(1))
build = cmake --build $(1) $(if $(2),--target $(2)) -j$(JOBS) $(call quietly,$(1))
# a test takes two of these, one that waits for most of its time a single one (cmake/tests.cmake)
halves = $(shell echo $$((2 * $(JOBS))))
suite = cd $(1) && ctest -j$(halves) --output-on-failure --no-tests=error

all: ## build build/ringtmp and the library; VERBOSE=1 shows the compiler's commands
	@tools/setup.sh build
	@[ -e build/ringtmp ] || echo "Building RingTMP: a minute on two cores, several on a small board."
	@$(call configure,build,-S . -B build -DCMAKE_BUILD_TYPE=Release)
	@$(call build,build)

demo: ## train a small CNN on Fashion-MNIST, about two minutes on two cores
	@tools/setup.sh build data
	@$(MAKE) all
	build/ringtmp train examples/demo.yaml

demo-failure: ## the demo, with one of its four processes killed in the middle and started again
	@tools/setup.sh build data
	@$(MAKE) all
	@tools/demo-failure.sh

test: ## build and run all tests but the long ones
	@tools/setup.sh build data
	@$(MAKE) all
	@$(call build,build,tests)
	@$(call suite,build)

test-long: ## train the examples to their promised accuracy (about half an hour)
	@tools/setup.sh build examples
	@$(MAKE) all
	@$(call suite,build) -C Long -L long -j1

bench: ## measure speed against the best peers; PEERS=all adds the newest PyTorch
	@tools/setup.sh build data bench
	@$(MAKE) all
	@$(call build,build,bench_products bench_collectives)
	@PEERS=$(PEERS) bash bench/run.sh

install: all ## install the command, the library and its header under PREFIX (/usr/local)
	@cmake --install build --prefix $(PREFIX)
	@# programs find a new shared library in a system directory only after ldconfig
	@case "$(DESTDIR)$(PREFIX)" in /usr | /usr/local) [ "$$(id -u)" -ne 0 ] || ldconfig ;; esac

asan tsan: ## the tests under the address and undefined-behaviour, or the thread sanitizer
	@tools/setup.sh build data
	@$(call configure,build/$@,--preset $@)
	@$(call build,build/$@,tests)
	@$(call suite,build/$@)

fuzz: ## every fuzz target for FUZZ_SECONDS (60)
	@tools/setup.sh build fuzz
	@$(call configure,build/fuzz,--preset fuzz)
	@$(call build,build/fuzz,tests)
	@tools/fuzz.sh build/fuzz/fuzz $(FUZZ_SECONDS) $(FUZZ_INPUTS)

arm64: ## cross-compile for 64-bit ARM, run the tests of what may depend on the machine under an emulator
	@tools/setup.sh build cross
	@tools/arm64-sysroot.sh build/arm64-sysroot
	@$(call configure,build/arm64,--preset arm64)
	@$(call build,build/arm64,tests)
	@$(call suite,build/arm64) -L 'unit|contract|numeric|fuzz' -LE nodes

format: ## lay out the source with clang-format
	@tools/setup.sh style
	@find src include tests fuzz bench examples -name '*.[ch]' -exec clang-format -i {} +

tidy: ## look for mistakes with clang-tidy
	@tools/setup.sh build style
	@$(call configure,build/dev,--preset dev)
	@find src -name '*.c' -not -path '*/exact/*' -print0 | xargs -0 -n 8 -P $(JOBS) clang-tidy -p build/dev --quiet

clean: ## remove build/ (runs/ stays)
	@rm -rf build

help: ## this list
	@sed -n 's/^\([a-z0-9 -]*\):[^#]*## /\1|/p' Makefile | awk -F'|' '{ printf "  make %-12s %s\n", $$1, $$2 }'
