# Policies and their models: pure functions, no clock, no sockets.
noinst_LIBRARIES += policies/libdppolicy.a
policies_libdppolicy_a_SOURCES = \
	policies/decide.c policies/decide.h \
	policies/keep.c \
	policies/pack.c policies/pack.h \
	policies/param.c \
	policies/partition.c policies/partition.h \
	policies/policy.c policies/policy.h \
	policies/pruning.c policies/pruning.h \
	policies/release_when.c policies/release_when.h \
	policies/simulate.c policies/simulate.h \
	policies/time.c \
	policies/uniform.c

if HAVE_CMOCKA
policy_tests = tests/unit/test_partition tests/unit/test_simulate tests/unit/test_policy tests/unit/test_pruning
policy_libs = policies/libdppolicy.a common/libdpcommon.a $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(policy_tests)
TESTS += $(policy_tests)
tests_unit_test_partition_SOURCES = tests/unit/test_partition.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_partition_LDADD = $(policy_libs)
tests_unit_test_simulate_SOURCES = tests/unit/test_simulate.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_simulate_LDADD = $(policy_libs)
tests_unit_test_pruning_SOURCES = tests/unit/test_pruning.c tests/unit/recorded_loads.h tests/unit/unit.h
tests_unit_test_pruning_LDADD = $(policy_libs)
tests_unit_test_policy_SOURCES = tests/unit/test_policy.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_policy_LDADD = $(policy_libs)
endif
