# SPDX-License-Identifier: BSD-3-Clause
# The CUDA backend: a shared object that dp_backend_create loads (kernels/backend.c). The .cu files are compiled by
# nvcc, once for all kinds of cards; the others by the C compiler. For tests all of it is built a second time, for the
# emulator, without CUDA.
cuda_layers = kernels/cuda/layers/adamw.cu kernels/cuda/layers/add.cu kernels/cuda/layers/attention.cu kernels/cuda/layers/embedding.cu \
	kernels/cuda/layers/head.cu kernels/cuda/layers/layernorm.cu kernels/cuda/layers/linear.cu kernels/cuda/layers/sort.cu \
	kernels/cuda/layers/sum.cu kernels/cuda/layers/sum_squares.cu
cuda_sparse = kernels/cuda/sparse/blocks.cu kernels/cuda/sparse/blocks_gradient.cu kernels/cuda/sparse/csr.cu \
	kernels/cuda/sparse/csr_gradient.cu kernels/cuda/sparse/reorder.cu kernels/cuda/sparse/sparse.cu
cuda_pruning = kernels/cuda/pruning/block_norms.cu kernels/cuda/pruning/choose.cu kernels/cuda/pruning/count_keys.cu \
	kernels/cuda/pruning/digest.cu kernels/cuda/pruning/gather.cu kernels/cuda/pruning/mask.cu kernels/cuda/pruning/merge_rows.cu \
	kernels/cuda/pruning/spread_bits.cu
cuda_kernels = kernels/cuda/columns.cu kernels/cuda/probe.cu kernels/cuda/product.cu kernels/cuda/tokens.cu $(cuda_layers) $(cuda_sparse) \
	$(cuda_pruning)
cuda_headers = kernels/cuda/api.h kernels/cuda/blas.h kernels/cuda/columns.h kernels/cuda/cu.h kernels/cuda/cuda.h kernels/cuda/finish.h \
	kernels/cuda/gelu.h kernels/cuda/product.h kernels/cuda/record.h kernels/cuda/layers/sort.h kernels/cuda/sparse/sparse.h \
	kernels/cuda/sparse/sparse_plan.h kernels/cuda/sparse/sparse_tile.h kernels/cuda/layers/sum.h kernels/cuda/tokens.h \
	kernels/backend.h common/err.h
cuda_host = kernels/cuda/api.h kernels/cuda/blas.c kernels/cuda/blas.h kernels/cuda/cuda.h kernels/cuda/device.c kernels/cuda/link.c \
	kernels/cuda/memory.c kernels/cuda/notes.c kernels/cuda/ops.c kernels/cuda/product.h kernels/cuda/queue.c \
	kernels/cuda/record.c kernels/cuda/record.h \
	kernels/cuda/sparse/sparse_plan.c kernels/cuda/sparse/sparse_plan.h kernels/cuda/tokens.h kernels/granularity.c \
	kernels/granularity.h kernels/pattern.c kernels/pattern.h
cuda_lds = $(top_srcdir)/kernels/cuda/plugin.lds
EXTRA_DIST += $(cuda_kernels) $(cuda_headers) kernels/cuda/plugin.lds kernels/cuda/README.md kernels/cuda/emu/README.md \
	kernels/cuda/layers/README.md kernels/cuda/sparse/README.md kernels/cuda/pruning/README.md

SUFFIXES = .cu .emu
# Exceptions, type information and guards would need a C++ library when the plugin is loaded.
CUDA_CXX_FLAGS = -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wall -Wextra
cuda_werror = werror=; case ' $(WARN_CFLAGS) $(CFLAGS) ' in *' -Werror '*) werror=-Werror;; esac

NVCC_FLAGS = -std=c++17 -O3 -lineinfo $(NVCC_ARCHS) -Xcompiler='$(CUDA_CXX_FLAGS) -O2'
.cu.o:
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(cuda_werror); $(NVCC) $(NVCC_FLAGS) $${werror:+-Werror=all-warnings -Xcompiler=-Werror} \
		-I$(top_srcdir) -I$(top_builddir) $(NVCCFLAGS) -c -o $@ $<

if HAVE_NVCC
cuda_objects = $(cuda_kernels:.cu=.o)
$(cuda_objects): $(cuda_headers) kernels/cuda/nvcc.flags
# Changes when the flags do, and only then: nvcc takes its time.
nvcc-flags-now:
kernels/cuda/nvcc.flags: nvcc-flags-now
	@$(MKDIR_P) $(@D); echo "$(NVCC) $(NVCC_FLAGS) $(NVCCFLAGS)" | cmp -s - $@ || echo "$(NVCC) $(NVCC_FLAGS) $(NVCCFLAGS)" >$@
cudaplugindir = $(libdir)/dynpipe
cudaplugin_PROGRAMS = kernels/cuda/libdynpipe-cuda.so
kernels_cuda_libdynpipe_cuda_so_SOURCES = $(cuda_host) kernels/cuda/api.c
kernels_cuda_libdynpipe_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
kernels_cuda_libdynpipe_cuda_so_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
kernels_cuda_libdynpipe_cuda_so_LDFLAGS = $(SHARED_LINK) -shared -Wl,--version-script=$(cuda_lds) -Wl,-z,defs
kernels_cuda_libdynpipe_cuda_so_LDADD = $(cuda_objects) common/libdpcommon.a $(CUDA_LIBS) -lm
EXTRA_kernels_cuda_libdynpipe_cuda_so_DEPENDENCIES = $(cuda_lds) $(cuda_objects)
CLEANFILES += $(cuda_objects) kernels/cuda/nvcc.flags

# What the compiler made of the kernels, against kernels/cuda/resources.txt: tests/gpu/resources.t. The objects that are
# there are read; of planted.cu there is one for the test of the test.
check_PROGRAMS += tests/gpu/resources
tests_gpu_resources_SOURCES = tests/gpu/resources.c
tests_gpu_resources_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
check_DATA += tests/gpu/planted.o
tests/gpu/planted.o: $(cuda_headers) kernels/cuda/nvcc.flags
CLEANFILES += tests/gpu/planted.o
resources = tests/gpu/resources$(EXEEXT)
kernel-table: $(resources) $(cuda_objects)
	$(resources) --update "$(CUDA_ARCHS)" $(top_srcdir)/kernels/cuda/resources.txt $(cuda_objects)
check-kernel-table: $(resources) $(cuda_objects)
	@$(resources) "$(CUDA_ARCHS)" $(top_srcdir)/kernels/cuda/resources.txt $(cuda_objects)
endif
# For tests/gpu/resources.t.
print-cuda-archs:
	@echo $(CUDA_ARCHS)

# The emulator itself is built without the sanitizers of the build: stacks that are switched are nothing for them.
emu_sources = kernels/cuda/emu/block.c kernels/cuda/emu/block.h kernels/cuda/emu/check.c kernels/cuda/emu/check.h \
	kernels/cuda/emu/emu.h kernels/cuda/emu/fiber.c kernels/cuda/emu/fiber.h kernels/cuda/emu/hooks.c \
	kernels/cuda/emu/ipc.c kernels/cuda/emu/ipc.h \
	kernels/cuda/emu/kernel.h kernels/cuda/emu/memory.c kernels/cuda/emu/memory.h kernels/cuda/emu/runtime.c \
	kernels/cuda/emu/stream.c kernels/cuda/emu/stream.h kernels/cuda/emu/types.h \
	kernels/cuda/emu/warp.c kernels/cuda/emu/warp.h
EXTRA_DIST += kernels/cuda/emu/device.h tests/unit/kernels/cuda_bugs/bugs.cu tests/unit/kernels/cuda_emu/kernels.cu
EMU_CXX = $(CXX) -x c++ -std=gnu++17 -O2 -g -ffp-contract=off -DDP_CUDA_EMU $(CUDA_CXX_FLAGS) -fsanitize=thread
.cu.emu:
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(cuda_werror); $(EMU_CXX) $$werror -I$(top_srcdir) -I$(top_builddir) -c -o $@ $<

gpu_ops_sources = tests/gpu/ops.c tests/gpu/ops.h tests/gpu/ops_linear.c tests/gpu/ops_pruning.c tests/gpu/ops_rows.c \
	tests/gpu/ops_sparse.c tests/gpu/ops_weights.c
EXTRA_DIST += $(gpu_ops_sources)
EXTRA_DIST += tests/gpu/resources.c tests/gpu/planted.cu kernels/cuda/resources.txt
dist_check_SCRIPTS += tests/gpu/ops.t tests/gpu/resources.t tests/gpu/run.t
TESTS += tests/gpu/resources.t
# Whole runs on the emulator.
emu_runs = tests/integration/0080-cuda-emulator.t tests/e2e/0106-cuda-emulator.t
dist_check_SCRIPTS += $(emu_runs)
# For machines with a card, where there is no ./configure.
EXTRA_DIST += tests/gpu/run tests/gpu/run.mk tests/gpu/parts.sh tests/gpu/workers tests/gpu/kernel-times tests/gpu/peer.py tests/gpu/train.c tests/gpu/memory.c tests/gpu/probe.cu

if HAVE_CUDA_EMU
emu_kernels = $(cuda_kernels:.cu=.emu)
$(emu_kernels): $(cuda_headers) kernels/cuda/emu/device.h kernels/cuda/emu/kernel.h kernels/cuda/emu/types.h
check_LIBRARIES += kernels/cuda/emu/libemu.a kernels/cuda/emu/libhost.a
kernels_cuda_emu_libemu_a_SOURCES = $(emu_sources)
kernels_cuda_emu_libemu_a_CFLAGS = -std=gnu11 $(WARN_CFLAGS) -fPIC -fvisibility=hidden
kernels_cuda_emu_libemu_a_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
kernels_cuda_emu_libemu_a_LIBADD = $(emu_kernels)
EXTRA_kernels_cuda_emu_libemu_a_DEPENDENCIES = $(emu_kernels)
kernels_cuda_emu_libhost_a_SOURCES = $(cuda_host)
kernels_cuda_emu_libhost_a_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
kernels_cuda_emu_libhost_a_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
# All of both: a plugin's table pulls in what it names, but nothing names the table.
emu_libs = kernels/cuda/emu/libhost.a kernels/cuda/emu/libemu.a
emu_whole = -Wl,--whole-archive $(emu_libs) -Wl,--no-whole-archive
check_PROGRAMS += kernels/cuda/emu/libdynpipe-cuda-emu.so
kernels_cuda_emu_libdynpipe_cuda_emu_so_SOURCES =
kernels_cuda_emu_libdynpipe_cuda_emu_so_LDFLAGS = $(emu_whole) $(SHARED_LINK) -shared -Wl,--version-script=$(cuda_lds) -Wl,-z,defs
kernels_cuda_emu_libdynpipe_cuda_emu_so_LDADD = common/libdpcommon.a -lm -lpthread
EXTRA_kernels_cuda_emu_libdynpipe_cuda_emu_so_DEPENDENCIES = $(cuda_lds) $(emu_libs)
CLEANFILES += $(emu_kernels)
# Operations: programs that load a plugin, the emulator's or a card's.
cuda_op_tests = tests/unit/kernels/test_cuda_attention
check_PROGRAMS += $(cuda_op_tests)
TESTS += $(cuda_op_tests)
tests_unit_kernels_test_cuda_attention_SOURCES = tests/unit/kernels/test_cuda_attention.c tests/unit/kernels/device_ops.h
tests_unit_kernels_test_cuda_attention_LDADD = -ldl -lm

# One program for the emulator and for cards.
check_PROGRAMS += tests/gpu/ops
tests_gpu_ops_SOURCES = $(gpu_ops_sources)
tests_gpu_ops_LDADD = common/libdpcommon.a -ldl -lm
TESTS += tests/gpu/ops.t tests/gpu/run.t $(emu_runs)

if HAVE_CMOCKA
cuda_tests = tests/unit/kernels/test_cuda_backend tests/unit/kernels/test_cuda_bugs tests/unit/kernels/test_cuda_emu \
	tests/unit/kernels/test_cuda_link tests/unit/kernels/test_cuda_record
check_PROGRAMS += $(cuda_tests)
TESTS += $(cuda_tests)
tests_unit_kernels_test_cuda_backend_SOURCES = tests/unit/kernels/test_cuda_backend.c tests/unit/kernels/cuda_util.h
tests_unit_kernels_test_cuda_backend_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
tests_unit_kernels_test_cuda_backend_LDFLAGS = $(emu_whole) $(AM_LDFLAGS)
tests_unit_kernels_test_cuda_backend_LDADD = $(KERNELS_TEST_LIBS)
EXTRA_tests_unit_kernels_test_cuda_backend_DEPENDENCIES = $(emu_libs)
tests_unit_kernels_test_cuda_link_SOURCES = tests/unit/kernels/test_cuda_link.c tests/unit/kernels/cuda_util.h
tests_unit_kernels_test_cuda_link_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
tests_unit_kernels_test_cuda_link_LDFLAGS = $(emu_whole) $(AM_LDFLAGS)
tests_unit_kernels_test_cuda_link_LDADD = $(KERNELS_TEST_LIBS)
EXTRA_tests_unit_kernels_test_cuda_link_DEPENDENCIES = $(emu_libs)
tests_unit_kernels_test_cuda_record_SOURCES = tests/unit/kernels/test_cuda_record.c tests/unit/kernels/cuda_util.h
tests_unit_kernels_test_cuda_record_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
tests_unit_kernels_test_cuda_record_LDFLAGS = $(emu_whole) $(AM_LDFLAGS)
tests_unit_kernels_test_cuda_record_LDADD = $(KERNELS_TEST_LIBS)
EXTRA_tests_unit_kernels_test_cuda_record_DEPENDENCIES = $(emu_libs)
bug_kernels = tests/unit/kernels/cuda_bugs/bugs.emu
$(bug_kernels): $(cuda_headers) kernels/cuda/emu/device.h tests/unit/kernels/cuda_bugs/bugs.h
tests_unit_kernels_test_cuda_bugs_SOURCES = tests/unit/kernels/test_cuda_bugs.c tests/unit/kernels/cuda_bugs/bugs.h
tests_unit_kernels_test_cuda_bugs_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
tests_unit_kernels_test_cuda_bugs_LDFLAGS = $(emu_whole) $(AM_LDFLAGS)
tests_unit_kernels_test_cuda_bugs_LDADD = $(bug_kernels) $(KERNELS_TEST_LIBS)
EXTRA_tests_unit_kernels_test_cuda_bugs_DEPENDENCIES = $(emu_libs)
CLEANFILES += $(bug_kernels)
emu_test_kernels = tests/unit/kernels/cuda_emu/kernels.emu
$(emu_test_kernels): $(cuda_headers) kernels/cuda/emu/device.h tests/unit/kernels/cuda_emu/kernels.h
tests_unit_kernels_test_cuda_emu_SOURCES = tests/unit/kernels/test_cuda_emu.c tests/unit/kernels/cuda_emu/kernels.h
tests_unit_kernels_test_cuda_emu_CPPFLAGS = $(AM_CPPFLAGS) -DDP_CUDA_EMU
tests_unit_kernels_test_cuda_emu_LDFLAGS = $(emu_whole) $(AM_LDFLAGS)
tests_unit_kernels_test_cuda_emu_LDADD = $(emu_test_kernels) $(KERNELS_TEST_LIBS)
EXTRA_tests_unit_kernels_test_cuda_emu_DEPENDENCIES = $(emu_libs)
CLEANFILES += $(emu_test_kernels)
endif
endif
