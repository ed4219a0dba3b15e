# SPDX-License-Identifier: BSD-3-Clause
# The kernel backends. The op files are compiled once per version of the processor (kernels/cpu/vec.h)
# and all versions end up in one library; device.c chooses at run time.
KERNELS_LIBS = $(GEMM_LIBS) $(OPENMP_CFLAGS) -ldl -lm $(JANSSON_LIBS)
KERNELS_CPPFLAGS = $(AM_CPPFLAGS) -DDP_PLUGIN_DIR='"$(libdir)/dynpipe"'

cpu_ops = \
	kernels/cpu/epilogue.h kernels/cpu/ops.c kernels/cpu/ops.h kernels/cpu/vec.h kernels/cpu/vmath.h \
	kernels/cpu/dense/dense.c kernels/cpu/dense/small_gemm.c \
	kernels/cpu/layers/adamw.c kernels/cpu/layers/add.c kernels/cpu/layers/attention.c kernels/cpu/layers/digest.c \
	kernels/cpu/layers/embedding.c kernels/cpu/layers/head.c kernels/cpu/layers/layernorm.c kernels/cpu/layers/linear.c \
	kernels/cpu/layers/merge_rows.c kernels/cpu/layers/sum.c kernels/cpu/layers/sum_squares.c \
	kernels/cpu/pruning/block_norms.c kernels/cpu/pruning/choose.c kernels/cpu/pruning/count_keys.c kernels/cpu/pruning/gather.c \
	kernels/cpu/pruning/mask.c kernels/cpu/pruning/run_of_bits.h kernels/cpu/pruning/spread_bits.c \
	kernels/cpu/sparse/fetch.h kernels/cpu/sparse/pack.c kernels/cpu/sparse/sddmm.c kernels/cpu/sparse/spmm.c \
	kernels/cpu/sparse/spmm.h kernels/cpu/sparse/spmm_blocks.c kernels/cpu/sparse/spmm_single.c

noinst_LIBRARIES += kernels/libdpkernels.a
EXTRA_LIBRARIES = kernels/libcpu_plain.a kernels/libcpu_avx2.a kernels/libcpu_avx512.a
kernels_libdpkernels_a_SOURCES = \
	kernels/autotune.c kernels/autotune.h \
	kernels/autotune_file.c \
	kernels/backend.c kernels/backend.h \
	kernels/cpu/cpu.h \
	kernels/cpu/device.c \
	kernels/cpu/dense/gemm.c \
	kernels/cpu/parallel.c kernels/cpu/parallel.h \
	kernels/cpu/sparse/plan.c kernels/cpu/sparse/plan.h \
	kernels/cpu/sparse/refresh.c \
	kernels/cpu/stock.c kernels/cpu/stock.h \
	kernels/granularity.c kernels/granularity.h \
	kernels/pattern.c kernels/pattern.h \
	kernels/timed_linear.c kernels/timed_linear.h \
	kernels/reference.h kernels/reference_pruning.h \
	kernels/waiting.c kernels/waiting.h
kernels_libdpkernels_a_CFLAGS = $(AM_CFLAGS) $(GEMM_CFLAGS) $(OPENMP_CFLAGS)
kernels_libdpkernels_a_CPPFLAGS = $(KERNELS_CPPFLAGS) $(X86_VERSIONS_CPPFLAGS)
kernels_libdpkernels_a_LIBADD = $(kernels_libcpu_plain_a_OBJECTS)
kernels_libdpkernels_a_DEPENDENCIES = $(kernels_libdpkernels_a_LIBADD)

kernels_libcpu_plain_a_SOURCES = $(cpu_ops)
kernels_libcpu_plain_a_CFLAGS = $(AM_CFLAGS)
kernels_libcpu_plain_a_CPPFLAGS = $(AM_CPPFLAGS) -DDP_VEC=plain -DDP_VEC_FLOATS=4
kernels_libcpu_avx2_a_SOURCES = $(cpu_ops)
kernels_libcpu_avx2_a_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma
kernels_libcpu_avx2_a_CPPFLAGS = $(AM_CPPFLAGS) -DDP_VEC=avx2 -DDP_VEC_FLOATS=8
kernels_libcpu_avx512_a_SOURCES = $(cpu_ops)
kernels_libcpu_avx512_a_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mavx512f -mavx512vl -mavx512bw -mavx512dq
kernels_libcpu_avx512_a_CPPFLAGS = $(AM_CPPFLAGS) -DDP_VEC=avx512 -DDP_VEC_FLOATS=16

if HAVE_X86_VERSIONS
X86_VERSIONS_CPPFLAGS = -DHAVE_X86_VERSIONS
kernels_libdpkernels_a_LIBADD += $(kernels_libcpu_avx2_a_OBJECTS) $(kernels_libcpu_avx512_a_OBJECTS)
endif

EXTRA_DIST += kernels/reference.inc kernels/bench/limits.inc doc/kernels.md

# make bench: dense against sparse linear layers; make bench-ops: all other operations; make bench-device:
# the processor as `dynpipe plan --device` takes it; on this machine
noinst_PROGRAMS += kernels/bench/bench_linear kernels/bench/bench_ops kernels/bench/bench_device
noinst_LIBRARIES += kernels/bench/libbench.a
kernels_bench_libbench_a_SOURCES = \
	kernels/bench/bench.c kernels/bench/bench.h kernels/bench/limits.c kernels/bench/limits.h \
	kernels/bench/machine.c kernels/bench/machine.h kernels/bench/mask.c kernels/bench/mask.h \
	kernels/bench/mask_file.c kernels/bench/options.c kernels/bench/options.h
kernels_bench_libbench_a_CFLAGS = $(AM_CFLAGS) $(GEMM_CFLAGS)
kernels_bench_libbench_a_CPPFLAGS = $(AM_CPPFLAGS) $(X86_VERSIONS_CPPFLAGS)
BENCH_LIBS = kernels/bench/libbench.a kernels/libdpkernels.a common/libdpcommon.a $(KERNELS_LIBS)
kernels_bench_bench_linear_SOURCES = kernels/bench/bench_linear.c \
	kernels/bench/linear.c kernels/bench/linear.h kernels/bench/linear_arguments.c kernels/bench/linear_arguments.h \
	kernels/bench/linear_table.c
kernels_bench_bench_linear_LDADD = $(BENCH_LIBS)
kernels_bench_bench_ops_SOURCES = kernels/bench/bench_ops.c
kernels_bench_bench_ops_LDADD = $(BENCH_LIBS)
kernels_bench_bench_device_SOURCES = kernels/bench/bench_device.c
kernels_bench_bench_device_LDADD = $(BENCH_LIBS)
.PHONY: bench bench-device bench-ops
bench-device: kernels/bench/bench_device
	@kernels/bench/bench_device $(BENCHFLAGS)
bench: kernels/bench/bench_linear
	kernels/bench/bench_linear $(BENCHFLAGS)
bench-ops: kernels/bench/bench_ops
	kernels/bench/bench_ops $(BENCHFLAGS)

if HAVE_CMOCKA
kernels_tests = tests/unit/kernels/test_bench_mask \
	tests/unit/kernels/test_kernels_attention tests/unit/kernels/test_kernels_autotune tests/unit/kernels/test_kernels_backend \
	tests/unit/kernels/test_kernels_gradients tests/unit/kernels/test_kernels_head tests/unit/kernels/test_kernels_layernorm tests/unit/kernels/test_kernels_linear \
	tests/unit/kernels/test_kernels_math tests/unit/kernels/test_kernels_ops tests/unit/kernels/test_kernels_pruning
check_PROGRAMS += $(kernels_tests)
TESTS += $(kernels_tests)
KERNELS_TEST_LIBS = kernels/libdpkernels.a common/libdpcommon.a $(KERNELS_LIBS) $(UNIT_LIBS)
tests_unit_kernels_test_bench_mask_SOURCES = tests/unit/kernels/test_bench_mask.c tests/unit/unit.h
tests_unit_kernels_test_bench_mask_LDADD = $(BENCH_LIBS) $(UNIT_LIBS)
tests_unit_kernels_test_kernels_attention_SOURCES = tests/unit/kernels/test_kernels_attention.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_attention_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_autotune_SOURCES = tests/unit/kernels/test_kernels_autotune.c
tests_unit_kernels_test_kernels_autotune_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_backend_SOURCES = tests/unit/kernels/test_kernels_backend.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_backend_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_gradients_SOURCES = tests/unit/kernels/test_kernels_gradients.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_gradients_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_head_SOURCES = tests/unit/kernels/test_kernels_head.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_head_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_layernorm_SOURCES = tests/unit/kernels/test_kernels_layernorm.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_layernorm_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_linear_SOURCES = tests/unit/kernels/test_kernels_linear.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_linear_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_math_SOURCES = tests/unit/kernels/test_kernels_math.c
tests_unit_kernels_test_kernels_math_CPPFLAGS = $(AM_CPPFLAGS) -DDP_VEC=plain -DDP_VEC_FLOATS=4
tests_unit_kernels_test_kernels_math_LDADD = $(UNIT_LIBS) -lm
if HAVE_X86_VERSIONS
kernels_math_versions = tests/unit/kernels/test_kernels_math_avx2 tests/unit/kernels/test_kernels_math_avx512
check_PROGRAMS += $(kernels_math_versions)
TESTS += $(kernels_math_versions)
tests_unit_kernels_test_kernels_math_avx2_SOURCES = tests/unit/kernels/test_kernels_math.c
tests_unit_kernels_test_kernels_math_avx2_CFLAGS = $(kernels_libcpu_avx2_a_CFLAGS)
tests_unit_kernels_test_kernels_math_avx2_CPPFLAGS = $(kernels_libcpu_avx2_a_CPPFLAGS)
tests_unit_kernels_test_kernels_math_avx2_LDADD = $(UNIT_LIBS) -lm
tests_unit_kernels_test_kernels_math_avx512_SOURCES = tests/unit/kernels/test_kernels_math.c
tests_unit_kernels_test_kernels_math_avx512_CFLAGS = $(kernels_libcpu_avx512_a_CFLAGS)
tests_unit_kernels_test_kernels_math_avx512_CPPFLAGS = $(kernels_libcpu_avx512_a_CPPFLAGS)
tests_unit_kernels_test_kernels_math_avx512_LDADD = $(UNIT_LIBS) -lm
endif
tests_unit_kernels_test_kernels_ops_SOURCES = tests/unit/kernels/test_kernels_ops.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_ops_LDADD = $(KERNELS_TEST_LIBS)
tests_unit_kernels_test_kernels_pruning_SOURCES = tests/unit/kernels/test_kernels_pruning.c tests/unit/kernels/kernels_util.h
tests_unit_kernels_test_kernels_pruning_LDADD = $(KERNELS_TEST_LIBS)
endif

EXTRA_DIST += kernels/README.md kernels/bench/README.md kernels/cpu/README.md kernels/cpu/dense/README.md \
	kernels/cpu/layers/README.md kernels/cpu/pruning/README.md kernels/cpu/sparse/README.md
