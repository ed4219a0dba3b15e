# SPDX-License-Identifier: BSD-3-Clause
# Job mixes on a cluster: schedulers, readers, statistics.
noinst_LIBRARIES += policies/libdpcluster.a
policies_libdpcluster_a_SOURCES = \
	policies/cluster/curve.c policies/cluster/curve.h \
	policies/cluster/draw.c policies/cluster/draw.h \
	policies/cluster/easy.c \
	policies/cluster/generate.c policies/cluster/generate.h policies/cluster/lublin.c \
	policies/cluster/mix.c policies/cluster/mix.h \
	policies/cluster/queue.c policies/cluster/queue.h \
	policies/cluster/read.c policies/cluster/read.h policies/cluster/read_workload.c \
	policies/cluster/run.c policies/cluster/run.h policies/cluster/state.h \
	policies/cluster/slurm.c \
	policies/cluster/stats.c policies/cluster/stats.h \
	policies/cluster/swf.c policies/cluster/swf.h \
	policies/cluster/swf_comment.c policies/cluster/swf_comment.h \
	policies/cluster/swf_write.c

# make bench-cluster: a mix of real jobs on a private Slurm beside the simulated one
.PHONY: bench-cluster
bench-cluster: cli/dynpipe
	$(srcdir)/policies/cluster/bench/bench_slurm --dynpipe cli/dynpipe $(BENCHFLAGS)
EXTRA_DIST += policies/cluster/bench/bench_slurm

if HAVE_CMOCKA
cluster_unit_tests = tests/unit/test_cluster_read tests/unit/test_cluster_run
cluster_libs = policies/libdpcluster.a policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(cluster_unit_tests)
TESTS += $(cluster_unit_tests)
tests_unit_test_cluster_read_SOURCES = tests/unit/test_cluster_read.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_cluster_read_LDADD = $(cluster_libs)
tests_unit_test_cluster_run_SOURCES = tests/unit/test_cluster_run.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_cluster_run_LDADD = $(cluster_libs)
endif
