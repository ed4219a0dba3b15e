# SPDX-License-Identifier: BSD-3-Clause
# The CUDA backend: a shared object that dp_backend_create loads (kernels/backend.c). The .cu files are compiled by
# nvcc, once for all kinds of cards; the others by the C compiler.
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
	kernels/cuda/gelu.h kernels/cuda/product.h kernels/cuda/layers/sort.h kernels/cuda/sparse/sparse.h \
	kernels/cuda/sparse/sparse_plan.h kernels/cuda/sparse/sparse_tile.h kernels/cuda/layers/sum.h kernels/cuda/tokens.h \
	kernels/backend.h common/err.h
cuda_host = kernels/cuda/api.h kernels/cuda/blas.c kernels/cuda/blas.h kernels/cuda/cuda.h kernels/cuda/device.c kernels/cuda/link.c \
	kernels/cuda/memory.c kernels/cuda/notes.c kernels/cuda/ops.c kernels/cuda/product.h kernels/cuda/queue.c \
	kernels/cuda/sparse/sparse_plan.c kernels/cuda/sparse/sparse_plan.h kernels/cuda/tokens.h kernels/granularity.c \
	kernels/granularity.h kernels/pattern.c kernels/pattern.h
cuda_lds = $(top_srcdir)/kernels/cuda/plugin.lds
EXTRA_DIST += $(cuda_kernels) $(cuda_headers) kernels/cuda/plugin.lds kernels/cuda/README.md \
	kernels/cuda/layers/README.md kernels/cuda/sparse/README.md kernels/cuda/pruning/README.md

SUFFIXES = .cu
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
endif
