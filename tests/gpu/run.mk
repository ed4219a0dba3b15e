# SPDX-License-Identifier: BSD-3-Clause
# What tests/gpu/run builds where there are nvcc, GNU make and a C and C++ compiler, and nothing else of what ./configure
# asks for: the plugin for this card, the emulator's, and the programs that load them. Called in the folder that is built
# in: make -f SRC/tests/gpu/run.mk SRC=... ARCH=90a TARGET. Files are found, not listed: what lies in a folder of
# kernels/cuda belongs to it.
ARCH = 90a
NVCC = nvcc
CC = cc
CXX = c++
.SECONDARY:
.DELETE_ON_ERROR:

kernels = $(patsubst $(SRC)/kernels/cuda/%.cu,%,$(wildcard $(SRC)/kernels/cuda/*.cu $(SRC)/kernels/cuda/*/*.cu))
host = $(filter-out api emu/%,$(patsubst $(SRC)/kernels/cuda/%.c,%,$(wildcard $(SRC)/kernels/cuda/*.c $(SRC)/kernels/cuda/*/*.c)))
emu = $(notdir $(basename $(wildcard $(SRC)/kernels/cuda/emu/*.c)))
op_tests = $(notdir $(basename $(shell grep -l 'device_ops.h' $(SRC)/tests/unit/kernels/test_cuda_*.c)))
# Beyond these folders only what has no further needs; the linker says what is missing.
common = $(SRC)/common/err.c $(SRC)/common/crc32c.c $(SRC)/kernels/granularity.c $(SRC)/kernels/pattern.c
headers = $(wildcard $(SRC)/kernels/*.h $(SRC)/kernels/*.inc $(SRC)/kernels/cuda/*.h $(SRC)/kernels/cuda/*/*.h $(SRC)/tests/gpu/*.h)
cuda = $(patsubst %/bin/nvcc,%,$(shell command -v $(NVCC)))

cflags = -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -D_GNU_SOURCE -I$(SRC) -Iinclude
cuda_cxx = -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics
lds = -Wl,--version-script=$(SRC)/kernels/cuda/plugin.lds -Wl,-z,defs

emulator: emu/plugin.so ops train memory $(op_tests)
card: cuda/plugin.so probe resources memory

include/config.h:
	@mkdir -p include; echo '/* _GNU_SOURCE is on the command line */' >$@

cuda/%.o: $(SRC)/kernels/cuda/%.cu $(headers)
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_$(ARCH),code=sm_$(ARCH) -Xcompiler='$(cuda_cxx) -O2' -I$(SRC) -c -o $@ $<
cuda/host_%.o: $(SRC)/kernels/cuda/%.c $(headers) include/config.h
	@mkdir -p $(@D)
	$(CC) $(cflags) -isystem $(cuda)/include -c -o $@ $<
cuda/plugin.so: $(kernels:%=cuda/%.o) $(host:%=cuda/host_%.o) cuda/host_api.o
	$(CC) -shared $(lds) $(cflags) -o $@ $^ $(common) -L$(cuda)/lib64 -lcudart_static -ldl -lrt -lpthread -lm
probe: $(SRC)/tests/gpu/probe.cu
	$(NVCC) -std=c++17 -O2 -gencode=arch=compute_$(ARCH),code=sm_$(ARCH) -o $@ $<
memory: $(SRC)/tests/gpu/memory.c $(SRC)/daemon/release/nvml.c $(wildcard $(SRC)/daemon/release/*.h) include/config.h
	$(CC) $(cflags) -o $@ $(filter %.c,$^) -ldl
resources: $(SRC)/tests/gpu/resources.c
	$(CC) $(cflags) -isystem $(cuda)/include -o $@ $<

emu/%.o: $(SRC)/kernels/cuda/%.cu $(headers)
	@mkdir -p $(@D)
	$(CXX) -x c++ -std=gnu++17 -O2 -g -ffp-contract=off -DDP_CUDA_EMU $(cuda_cxx) -fsanitize=thread -I$(SRC) -c -o $@ $<
emu/host_%.o: $(SRC)/kernels/cuda/%.c $(headers) include/config.h
	@mkdir -p $(@D)
	$(CC) $(cflags) -DDP_CUDA_EMU -c -o $@ $<
emu/emu_%.o: $(SRC)/kernels/cuda/emu/%.c $(headers) include/config.h
	@mkdir -p $(@D)
	$(CC) $(cflags) -DDP_CUDA_EMU -c -o $@ $<
emu/plugin.so: $(kernels:%=emu/%.o) $(host:%=emu/host_%.o) $(emu:%=emu/emu_%.o)
	$(CC) -shared $(lds) $(cflags) -o $@ $^ $(common) -lm -lpthread

ops: $(wildcard $(SRC)/tests/gpu/ops*.c) $(headers)
	$(CC) $(cflags) -o $@ $(filter %.c,$^) $(common) -ldl -lm
test_cuda_%: $(SRC)/tests/unit/kernels/test_cuda_%.c $(headers)
	$(CC) $(cflags) -o $@ $< -ldl -lm
# Of worker/ only its model. What that has for files of configuration and for tables of tuning is left out by the linker.
train: $(SRC)/tests/gpu/train.c $(wildcard $(SRC)/worker/model/*.c) $(headers)
	$(CC) $(cflags) -ffunction-sections -fdata-sections -Wl,--gc-sections -o $@ $(filter %.c,$^) $(SRC)/kernels/autotune.c \
		$(SRC)/kernels/timed_linear.c $(common) $(SRC)/common/run/layout.c \
		$(wildcard $(SRC)/common/schedule/*.c) -ldl -lm
