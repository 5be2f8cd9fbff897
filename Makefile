# Rematch: see README.md. Everything is built under build/<variant>/; nothing is written into the source tree.
#
#   make deps | make | make study | make check | make parity | make bench | make lint | make install PREFIX=/usr/local DESTDIR=
#   ONLY=gemm,step ROUNDS=3 THREADS=1   a part of the benchmark, fewer rounds, on one thread
#   make calibrate  how often verdicts are wrong, into tests/verdict/RESULTS.md      make crosscheck  statistics against Python's
#   SANITIZE=1  ASan and UBSan      DEBUG=1  -O1 -g      SHORT=1  check without the tests that train whole studies      V=1  say the commands

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VARIANT := cpu$(if $(SANITIZE),-sanitize)$(if $(DEBUG),-debug)
B := build/$(VARIANT)
# What is made, one word and a name a line.
say = @$(if $(V),,printf '  %-4s %s\n' $1 $2;) $(if $(V),set -x;)
PREFIX ?= /usr/local
DESTDIR ?=

CC := mpicc
PACKAGES := libarchive jansson yaml-0.1 libxxhash
VERSION := 0.1.0
CPPFLAGS = -I. -D_GNU_SOURCE -DREMATCH_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
# No fast-math and no contraction: a fused multiply-add is written as one. Arithmetic is what we study.
CFLAGS = -std=gnu11 $(if $(DEBUG)$(SANITIZE),-O1,-O3) -g -fopenmp -ffp-contract=off -fno-math-errno $(if $(SANITIZE),$(SANITIZERS)) \
	-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# Tracking variables through instrumented vector code takes gcc minutes a file, for nothing that a report shows.
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -fno-var-tracking-assignments
LDLIBS = $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm

# Rooms: kernels <- model <- stages, kernels/status.h <- data <- stages. A program is a file of stages/ with a main.
PROGRAMS := shard plan baseline sweep diff report export
SIMD := $(wildcard kernels/cpu/simd/*.c)
ISAS := avx512 avx2 scalar
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mprefer-vector-width=512
FLAGS_avx2 := -mavx2 -mfma
# gcc 12 forgets what was written to a struct of 16 floats when it puts an expression in the place of its temporary.
FLAGS_scalar := -fno-tree-ter
LIBRARY := $(if $(SANITIZE),tests/sanitize/mpi.c) $(wildcard kernels/*.c kernels/reference/*.c kernels/cpu/*.c data/*.c model/*.c stages/report/*.c stages/logs/*.c) \
	$(filter-out $(PROGRAMS:%=stages/%.c),$(wildcard stages/*.c))
OBJECTS := $(LIBRARY:%.c=$B/obj/%.o) $(foreach i,$(ISAS),$(SIMD:%.c=$B/obj/%.$i.o))
TESTS := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
CALIBRATION := tests/verdict/calibrate.c tests/verdict/figures.c
TEST_SUPPORT := $(filter-out tests/test_%.c $(CALIBRATION),$(wildcard tests/*.c tests/verdict/*.c))

# Whole studies in seconds of training; SHORT=1 leaves them out.
LONG_TESTS := tests/test_study.sh tests/test_kill.sh
SCRIPT_TESTS := $(filter-out $(if $(SHORT),$(LONG_TESTS)),$(wildcard tests/test_*.sh))

.PHONY: all tests deps study check run-tests parity bench run-bench calibrate crosscheck lint install clean
all: $(PROGRAMS:%=$B/bin/rematch-%)

$B/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# The report's page is part of the executable (.incbin), which the compiler's dependencies do not see.
$B/obj/stages/report/page.o: stages/report/page.html

define simd_rule
$B/obj/%.$1.o: %.c Makefile
	@mkdir -p $$(@D)
	$$(call say,CC,"$$< ($1)") $$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(FLAGS_$1) -DISA=$1 -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call simd_rule,$i)))

$B/librematch.a: $(OBJECTS)
	@rm -f $@
	$(call say,AR,$@) ar rcs $@ $^

$B/bin/rematch-%: $B/obj/stages/%.o $B/librematch.a
	@mkdir -p $(@D)
	$(call say,LINK,$@) $(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$B/tests/%: $B/obj/tests/%.o $(TEST_SUPPORT:%.c=$B/obj/%.o) $B/librematch.a
	@mkdir -p $(@D)
	$(call say,LINK,$@) $(CC) $(CFLAGS) $^ $(LDLIBS) $$(pkg-config --libs check) -o $@

# The benchmark is built with them, so that it keeps up with what it measures.
tests: $(TESTS:%=$B/tests/%) $B/bench/bench

# Measures the CPU backend; no part of check. Peers take part where they are installed (oneDNN 2, PyTorch).
BENCH := $(filter-out tests/bench/fma.c tests/bench/peer_onednn.c,$(wildcard tests/bench/*.c))
BENCH_OBJECTS := $(BENCH:%.c=$B/obj/%.o) $(ISAS:%=$B/obj/tests/bench/fma.%.o) $B/obj/tests/temporary.o
ONEDNN := $(if $(shell grep -s 'DNNL_VERSION_MAJOR 2' /usr/include/oneapi/dnnl/dnnl_version.h),$B/bench/peer_onednn)

$B/bench/bench: $(BENCH_OBJECTS) $B/librematch.a
	@mkdir -p $(@D)
	$(call say,LINK,$@) $(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$B/bench/peer_onednn: $B/obj/tests/bench/peer_onednn.o
	@mkdir -p $(@D)
	$(call say,LINK,$@) $(CC) $(CFLAGS) $^ -ldnnl -o $@

run-bench: $B/bench/bench $(ONEDNN)
	tests/bench/bench.sh $B

.SECONDARY:

deps:
	@pipelines/deps.sh

# What deps installs, a make that is already running has not seen: build in a fresh one, on all cores unless -j is given.
FRESH = +$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

study: deps
	$(FRESH) all
	REMATCH_BIN=$B/bin pipelines/study.sh pipelines/studies/demo.yaml

check: deps
	$(FRESH) all tests
	+$(MAKE) --no-print-directory run-tests

bench:
	@pipelines/deps.sh --bench
	$(FRESH) run-bench

run-tests: all tests
	tests/run.sh $B $(TESTS:%=$B/tests/%) $(SCRIPT_TESTS)

# Against PyTorch, which tests/venv.sh fetches; not a part of check.
parity: deps
	$(FRESH) all $B/tests/parity/parity
	@tests/parity/parity.sh $B

# The one output that is committed: a table of measured error rates.
calibrate: deps
	$(FRESH) $B/tests/verdict/calibrate
	$B/tests/verdict/calibrate tests/verdict/RESULTS.md

# Against scipy, statsmodels and arch, which tests/venv.sh fetches; not a part of check.
crosscheck: deps
	$(FRESH) $B/tests/verdict/figures
	@tests/verdict/crosscheck.sh $B

C_FILES = $(wildcard $(foreach r,kernels kernels/* kernels/*/* data model stages stages/* tests tests/*,$r/*.c $r/*.h))
SCRIPTS = $(wildcard pipelines/*.sh data/*.sh slurm/*.sh tests/*.sh tests/*/*.sh) .ci/run

lint:
	@pipelines/deps.sh --lint
	$(call say,LINT,clang-format) clang-format --dry-run -Werror $(C_FILES)
	$(call say,LINT,cppcheck) cppcheck --quiet --error-exitcode=1 --enable=warning,performance --std=c11 --library=tests/cppcheck.cfg \
		--suppressions-list=tests/cppcheck.supp -I. -D_GNU_SOURCE -DREMATCH_VERSION='""' -DISA=scalar -j $(shell nproc) \
		$(filter %.c,$(C_FILES))
	$(call say,LINT,shellcheck) shellcheck -x $(SCRIPTS)
	$(call say,LINT,layers) tests/layers.sh
	@! wc -l $(C_FILES) $(SCRIPTS) | grep -v ' total$$' | awk '$$1 > 500 {print $$2 ": " $$1 " lines, 500 are enough"}' | grep .

# The pipelines find the programs by their place: share/rematch/pipelines/../../../bin.
SHARE = $(DESTDIR)$(PREFIX)/share/rematch
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/pipelines/studies $(SHARE)/data
	install -m 755 $(PROGRAMS:%=$B/bin/rematch-%) $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(wildcard pipelines/*.sh) $(SHARE)/pipelines
	install -m 644 $(wildcard pipelines/studies/*.yaml) $(SHARE)/pipelines/studies
	install -m 755 data/corpus.sh $(SHARE)/data

clean:
	rm -rf build

-include $(OBJECTS:.o=.d) $(PROGRAMS:%=$B/obj/stages/%.d) $(TESTS:%=$B/obj/tests/%.d) \
	$(TEST_SUPPORT:%.c=$B/obj/%.d) $B/obj/tests/parity/parity.d $(BENCH_OBJECTS:.o=.d) $(CALIBRATION:%.c=$B/obj/%.d)
