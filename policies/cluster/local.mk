# Job mixes on a cluster: schedulers, readers, statistics.
noinst_LIBRARIES += policies/libdpcluster.a
policies_libdpcluster_a_SOURCES = \
	policies/cluster/easy.c \
	policies/cluster/mix.c policies/cluster/mix.h \
	policies/cluster/queue.c policies/cluster/queue.h \
	policies/cluster/run.c policies/cluster/run.h policies/cluster/state.h \
	policies/cluster/slurm.c \
	policies/cluster/stats.c policies/cluster/stats.h

if HAVE_CMOCKA
cluster_unit_tests = tests/unit/test_cluster_run
cluster_libs = policies/libdpcluster.a policies/libdppolicy.a common/libdpcommon.a $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(cluster_unit_tests)
TESTS += $(cluster_unit_tests)
tests_unit_test_cluster_run_SOURCES = tests/unit/test_cluster_run.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_cluster_run_LDADD = $(cluster_libs)
endif
