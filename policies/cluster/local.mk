# SPDX-License-Identifier: BSD-3-Clause
# Job mixes on a cluster: schedulers, readers, statistics.
noinst_LIBRARIES += policies/libdpcluster.a
policies_libdpcluster_a_SOURCES = \
	policies/cluster/curve.c policies/cluster/curve.h policies/cluster/easy.c policies/cluster/machine.h \
	policies/cluster/mix.c policies/cluster/mix.h policies/cluster/queue.c policies/cluster/queue.h \
	policies/cluster/run.c policies/cluster/run.h policies/cluster/scheduler.c policies/cluster/scheduler.h \
	policies/cluster/slurm.c policies/cluster/state.c policies/cluster/state.h \
	policies/cluster/stats.c policies/cluster/stats.h \
	policies/cluster/generate/draw.c policies/cluster/generate/draw.h \
	policies/cluster/generate/generate.c policies/cluster/generate/generate.h policies/cluster/generate/lublin.c \
	policies/cluster/read/read.c policies/cluster/read/read.h policies/cluster/read/read_workload.c \
	policies/cluster/read/swf.c policies/cluster/read/swf.h \
	policies/cluster/read/swf_comment.c policies/cluster/read/swf_comment.h policies/cluster/read/swf_write.c

# make bench-cluster: a mix of real jobs on a private Slurm beside the simulated one
.PHONY: bench-cluster
bench-cluster: cli/dynpipe
	$(srcdir)/policies/cluster/bench/bench_slurm --dynpipe cli/dynpipe $(BENCHFLAGS)
EXTRA_DIST += policies/cluster/bench/bench_slurm

if HAVE_CMOCKA
cluster_unit_tests = tests/unit/policies/test_cluster_read tests/unit/policies/test_cluster_run
cluster_libs = policies/libdpcluster.a policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(cluster_unit_tests)
TESTS += $(cluster_unit_tests)
tests_unit_policies_test_cluster_read_SOURCES = tests/unit/policies/test_cluster_read.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_cluster_read_LDADD = $(cluster_libs)
tests_unit_policies_test_cluster_run_SOURCES = tests/unit/policies/test_cluster_run.c tests/unit/unit.h tests/unit/random.h
tests_unit_policies_test_cluster_run_LDADD = $(cluster_libs)
endif
