# SPDX-License-Identifier: BSD-3-Clause
# Orders that were learned. Sums and products are rounded one by one, whatever the compiler was told, so that weights are the same
# everywhere.
noinst_LIBRARIES += policies/libdplearn.a
LEARN_CFLAGS = $(AM_CFLAGS) -ffp-contract=off -fno-fast-math
policies_libdplearn_a_CFLAGS = $(LEARN_CFLAGS)
policies_libdplearn_a_SOURCES = \
	policies/learn/evaluate.c policies/learn/evaluate.h policies/learn/place.c policies/learn/place.h policies/learn/propose.c \
	policies/learn/propose.h \
	policies/learn/net/cutter.c policies/learn/net/cutter.h policies/learn/net/cutter_back.c policies/learn/net/cutter_inside.h \
	policies/learn/net/dense.h policies/learn/net/encoder.c policies/learn/net/encoder.h policies/learn/net/floats.h \
	policies/learn/net/net.c policies/learn/net/net.h policies/learn/net/shares.h policies/learn/net/weights.c \
	policies/learn/net/weights.h \
	policies/learn/train/clipped.c policies/learn/train/clipped.h policies/learn/train/drl_pp.c policies/learn/train/es.c \
	policies/learn/train/family.c policies/learn/train/family.h policies/learn/train/imitate.c policies/learn/train/lesson.c \
	policies/learn/train/lesson.h policies/learn/train/ppo.c policies/learn/train/select.c policies/learn/train/team.c \
	policies/learn/train/team.h policies/learn/train/train.c policies/learn/train/train.h
EXTRA_DIST += policies/learn/README.md policies/learn/net/README.md policies/learn/train/README.md

# make graphs: every planner on published and generated graphs
noinst_PROGRAMS += policies/graph/bench/print_family
policies_graph_bench_print_family_SOURCES = policies/graph/bench/print_family.c
policies_graph_bench_print_family_LDADD = policies/libdplearn.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm -lpthread
.PHONY: graphs
graphs: policies/graph/bench/print_family cli/dynpipe
	$(srcdir)/policies/graph/bench/bench_plans --dynpipe cli/dynpipe --families policies/graph/bench/print_family $(BENCHFLAGS)
EXTRA_DIST += policies/graph/bench/bench_plans policies/graph/bench/plans/README.md policies/graph/bench/plans/papers.py \
	policies/graph/bench/plans/questions.py policies/graph/bench/plans/report.py policies/graph/bench/plans/rows.py
dist_check_SCRIPTS += tests/bench/bench_plans.t
TESTS += tests/bench/bench_plans.t

# make bench-learned: does learning add anything? LEARNFLAGS, such as --seeds=2 --cases=20, make it shorter; it goes on where it was
noinst_PROGRAMS += policies/learn/bench/bench_learned
policies_learn_bench_bench_learned_SOURCES = policies/learn/bench/bench_learned.c
policies_learn_bench_bench_learned_LDADD = policies/libdplearn.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm -lpthread
.PHONY: bench-learned
bench-learned: policies/learn/bench/bench_learned
	policies/learn/bench/bench_learned $(LEARNFLAGS) $(GRAPHS)
EXTRA_DIST += policies/learn/bench/README.md

if HAVE_CMOCKA
learn_tests = tests/unit/policies/test_learn_cutter tests/unit/policies/test_learn_evaluate tests/unit/policies/test_learn_net tests/unit/policies/test_learn_train tests/unit/policies/test_learn_weights
learn_libs = policies/libdplearn.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm -lpthread
check_PROGRAMS += $(learn_tests)
TESTS += $(learn_tests)
tests_unit_policies_test_learn_cutter_SOURCES = tests/unit/policies/test_learn_cutter.c tests/unit/unit.h
tests_unit_policies_test_learn_cutter_CFLAGS = $(LEARN_CFLAGS)
tests_unit_policies_test_learn_cutter_LDADD = $(learn_libs)
tests_unit_policies_test_learn_evaluate_SOURCES = tests/unit/policies/test_learn_evaluate.c tests/unit/unit.h
tests_unit_policies_test_learn_evaluate_LDADD = $(learn_libs)
tests_unit_policies_test_learn_net_SOURCES = tests/unit/policies/test_learn_net.c tests/unit/unit.h
tests_unit_policies_test_learn_net_CFLAGS = $(LEARN_CFLAGS)
tests_unit_policies_test_learn_net_LDADD = $(learn_libs)
tests_unit_policies_test_learn_train_SOURCES = tests/unit/policies/test_learn_train.c tests/unit/unit.h
tests_unit_policies_test_learn_train_LDADD = $(learn_libs)
tests_unit_policies_test_learn_weights_SOURCES = tests/unit/policies/test_learn_weights.c tests/unit/unit.h
tests_unit_policies_test_learn_weights_LDADD = $(learn_libs)
endif
